//! Published figures to compare with.

/// What the vendor's model file says of how a network is compiled and run.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// Images that a program computes at once, each on a core of its own, with one copy of the weights: `max_compiler_cores`.
    pub(crate) images: usize,
    /// Whether consecutive layers run band by band: `tiling_depth`, six where it is not off.
    pub(crate) cascades: bool,
    /// Whether the array holds weights of few outputs several times: `in_core_replication`.
    pub(crate) replicated: bool,
    /// Share of its time that the array may work on each board, in percent: `m2.mvm_limitation`.
    pub(crate) array_percent: [u32; 2],
}

impl Setting {
    /// What is not said.
    pub(crate) const NONE: Self =
        Self { images: 1, cascades: false, replicated: true, array_percent: [100; 2] };

    const fn images(images: usize) -> Self {
        Self { images, ..Self::NONE }
    }

    const fn limited(self, percent: u32) -> Self {
        Self { array_percent: [100, percent], ..self }
    }

    const CASCADES: Self = Self { cascades: true, ..Self::NONE };
    const ONCE: Self = Self { replicated: false, ..Self::NONE };

    /// That of a topology on Metis, by the newest model file of the vendor's repository that is public.
    pub(crate) fn on_metis(topology: &str) -> Self {
        let (name, _) = topology.rsplit_once('_').unwrap_or((topology, ""));
        match name {
            "resnet18" => Self::images(2),
            "resnet34" | "resnet50" | "resnet101" | "squeezenet1_0" | "yolov8n" => Self::images(4),
            "yolov5s" | "yolov8s" => Self { images: 4, ..Self::CASCADES },
            "unet_fcn" if topology.ends_with("_256x256") => Self::CASCADES,
            "yolov7" if topology.ends_with("_640x640") => Self::CASCADES,
            "yolov8l" => Self::CASCADES.limited(57),
            "yolov3" => Self::NONE.limited(57),
            "efficientnet_b0" | "efficientnet_b1" | "efficientnet_b4" => Self::ONCE,
            _ => Self::NONE,
        }
    }
}

/// A network on a vendor's boards.
pub(crate) struct Network {
    pub(crate) topology: &'static str,
    pub(crate) name: &'static str,
    /// Networks built alike, which a fit leaves out together.
    pub(crate) family: &'static str,
    /// Of two boards, or at two widths, as far as they are published.
    pub(crate) figures: [Option<f64>; 2],
    /// Why no fit sees it.
    pub(crate) left_out: Option<&'static str>,
}

const fn of(
    family: &'static str,
    topology: &'static str,
    name: &'static str,
    first: f64,
    second: f64,
) -> Network {
    let second = if second > 0.0 { Some(second) } else { None };
    Network { topology, name, family, figures: [Some(first), second], left_out: None }
}

impl Network {
    const fn left_out(self, reason: &'static str) -> Self {
        Self { left_out: Some(reason), ..self }
    }
}

/// Frames per second, end to end, of the `PCIe` card and of M.2, both of four cores; 0 where none is published. The vendor's tables
/// of release 1.2.5 and newer.
pub(crate) const METIS: [Network; 29] = [
    of("resnet", "resnet18_224x224", "ResNet-18", 3904.0, 3749.0),
    of("resnet", "resnet34_224x224", "ResNet-34", 2282.0, 2075.0),
    of("resnet", "resnet50_224x224", "ResNet-50", 1946.0, 1756.0),
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
    of("densenet", "densenet121_224x224", "DenseNet-121", 281.0, 156.0),
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
