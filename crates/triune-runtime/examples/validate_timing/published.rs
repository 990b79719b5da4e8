//! Published figures to compare with.

/// A network on a vendor's boards.
pub(crate) struct Network {
    pub(crate) topology: &'static str,
    pub(crate) name: &'static str,
    /// Networks built alike, which a fit leaves out together.
    pub(crate) family: &'static str,
    /// Images that a program computes at once, each on a core of its own, with one copy of the weights.
    pub(crate) images: usize,
    /// Of two boards, or at two widths, as far as they are published.
    pub(crate) figures: [Option<f64>; 2],
    /// Why no fit sees it.
    pub(crate) left_out: Option<&'static str>,
}

/// One whose program computes an image at a time.
const fn of(
    family: &'static str,
    topology: &'static str,
    name: &'static str,
    first: f64,
    second: f64,
) -> Network {
    let second = if second > 0.0 { Some(second) } else { None };
    Network { topology, name, family, images: 1, figures: [Some(first), second], left_out: None }
}

impl Network {
    const fn images(self, images: usize) -> Self {
        Self { images, ..self }
    }

    const fn left_out(self, reason: &'static str) -> Self {
        Self { left_out: Some(reason), ..self }
    }
}

/// Frames per second, end to end, of the `PCIe` card and of M.2, both of four cores; 0 where none is published. The vendor's tables
/// of release 1.2.5 and newer.
///
/// Four cores share a program, and a copy of its weights, where the vendor's compiler is known to do so by default (ResNet-50), and
/// in the two networks like it whose weights, larger than a core's share of L2, do not slow M.2 down.
pub(crate) const METIS: [Network; 29] = [
    of("resnet", "resnet18_224x224", "ResNet-18", 3904.0, 3749.0).images(4),
    of("resnet", "resnet34_224x224", "ResNet-34", 2282.0, 2075.0).images(4),
    of("resnet", "resnet50_224x224", "ResNet-50", 1946.0, 1756.0).images(4),
    of("resnet", "resnet10t_224x224", "ResNet-10t", 5212.0, 0.0),
    of("resnet", "wide_resnet50_224x224", "Wide ResNet-50", 436.0, 236.0),
    of("grouped", "resnext50_32x4d_224x224", "ResNeXt-50 32x4d", 437.0, 0.0),
    of("grouped", "regnet_x_400mf_224x224", "RegNetX-400MF", 1199.0, 0.0),
    of("grouped", "regnet_x_1_6gf_224x224", "RegNetX-1.6GF", 695.0, 0.0),
    of("mobilenet", "mobilenet_v2_224x224", "MobileNetV2", 3670.0, 3638.0),
    of("mobilenet", "mobilenetv4_conv_small_224x224", "MobileNetV4-small", 4937.0, 0.0),
    of("efficientnet", "efficientnet_b0_224x224", "EfficientNet-B0", 1429.0, 1450.0),
    of("efficientnet", "efficientnet_b4_224x224", "EfficientNet-B4", 576.0, 436.0),
    of("inception", "inception_v3_224x224", "Inception v3", 1136.0, 636.0),
    of("squeezenet", "squeezenet1_1_224x224", "SqueezeNet 1.1", 7298.0, 7264.0),
    of("squeezenet", "squeezenet1_0_224x224", "SqueezeNet 1.0", 953.0, 0.0)
        .left_out("its pools of 54 and 27 columns need a column beyond the map, those of 1.1 do not"),
    of("densenet", "densenet121_224x224", "DenseNet-121", 281.0, 156.0)
        .left_out("M.2 is slower by 97 MB of DDR per image, and its weights are 8 MB: its maps go there"),
    of("yolov3, v7", "yolov3_640x640", "YOLOv3", 163.0, 96.0),
    of("yolov3, v7", "yolov7_480x640", "YOLOv7 480×640", 212.0, 0.0),
    of("yolov5", "yolov5n_640x640", "YOLOv5n", 1028.0, 0.0),
    of("yolov5", "yolov5s_640x640", "YOLOv5s", 865.0, 824.0),
    of("yolov5", "yolov5m_640x640", "YOLOv5m", 455.0, 322.0),
    of("yolov8", "yolov8n_640x640", "YOLOv8n", 834.0, 0.0),
    of("yolov8", "yolov8s_640x640", "YOLOv8s", 643.0, 524.0),
    of("yolov8", "yolov8l_640x640", "YOLOv8l", 181.0, 0.0),
    of("yolov9 to 11", "yolov9t_640x640", "YOLOv9t", 415.0, 0.0),
    of("yolov9 to 11", "yolov10n_640x640", "YOLOv10n", 738.0, 0.0),
    of("yolov9 to 11", "yolo11n_640x640", "YOLO11n", 759.0, 0.0),
    of("yolox", "yolox_m_nofocus_320x320", "YOLOX-m 320×320", 349.0, 0.0),
    of("unet", "unet_fcn_256x256", "U-Net 256×256", 249.0, 198.0),
];

/// A single 1×1 convolution of K inputs, N outputs and M pixels: microseconds per run, four cores at work.
pub(crate) struct Product {
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) m: usize,
    pub(crate) micros: f64,
}

const fn product(k: usize, n: usize, m: usize, micros: f64) -> Product {
    Product { k, n, m, micros }
}

/// Published single-layer benchmark of a production card at 800 MHz; frames per second are those of four instances.
pub(crate) const PRODUCTS: [Product; 20] = [
    product(2048, 64, 1, 10.9),
    product(2048, 128, 1, 11.96),
    product(2048, 256, 1, 14.6),
    product(2048, 512, 1, 19.78),
    product(2048, 1024, 1, 25.94),
    product(2048, 1536, 1, 32.14),
    product(2048, 2048, 1, 41.83),
    product(3584, 512, 1, 24.0),
    product(4096, 1024, 1, 38.2),
    product(2048, 3072, 1, 50.3),
    product(2048, 2048, 2, 41.28),
    product(2048, 2048, 32, 43.13),
    product(2048, 2048, 64, 45.6),
    product(2048, 2048, 96, 48.6),
    product(2048, 2048, 192, 57.25),
    product(2048, 2048, 256, 65.73),
    product(2048, 2048, 320, 72.12),
    product(2048, 2048, 448, 83.1),
    product(2048, 2048, 508, 87.77),
    product(128, 129, 1, 9.09),
];

/// Milliseconds of BUYI's NPU alone at 860 MHz, at 8 and at 16 bit; the vendor's model zoo.
pub(crate) const BUYI: [Network; 7] = [
    of("yolov5", "yolov5s_640x640", "YOLOv5s", 5.85, 13.37),
    of("resnet", "se_resnet34_224x224", "SE-ResNet34", 3.68, 7.26),
    of("yolov8", "yolov8n_cls_224x224", "YOLOv8n-cls", 0.930, 1.941),
    of("yolov8", "yolov8n_640x640", "YOLOv8n", 4.035, 8.245),
    of("yolox", "yolox_s_640x640", "YOLOX-s", 7.41, 16.79),
    of("yolov9, v10", "yolov9t_640x640", "YOLOv9t", 8.46, 0.0),
    of("yolov9, v10", "yolov10n_640x640", "YOLOv10n", 7.065, 9.263),
];
