//! Published figures of networks that no fit saw.

/// A network that no fit saw: figures of two boards, or of two widths, as far as they are published.
pub(crate) struct Unseen {
    pub(crate) topology: &'static str,
    pub(crate) name: &'static str,
    pub(crate) figures: [Option<f64>; 2],
}

const fn unseen(topology: &'static str, name: &'static str, figures: [Option<f64>; 2]) -> Unseen {
    Unseen { topology, name, figures }
}

/// The vendor's model zoo: frames per second of the `PCIe` card and of M.2. DenseNet-121's first figure is of a newer release.
pub(crate) const METIS_UNSEEN: [Unseen; 21] = [
    unseen("densenet121_224x224", "DenseNet-121", [Some(281.0), Some(156.0)]),
    unseen("efficientnet_b4_224x224", "EfficientNet-B4", [Some(576.0), Some(436.0)]),
    unseen("mobilenetv4_conv_small_224x224", "MobileNetV4-small", [Some(4937.0), None]),
    unseen("squeezenet1_0_224x224", "SqueezeNet 1.0", [Some(953.0), None]),
    unseen("inception_v3_224x224", "Inception v3", [Some(1136.0), Some(636.0)]),
    unseen("regnet_x_1_6gf_224x224", "RegNetX-1.6GF", [Some(695.0), None]),
    unseen("regnet_x_400mf_224x224", "RegNetX-400MF", [Some(1199.0), None]),
    unseen("resnet10t_224x224", "ResNet-10t", [Some(5212.0), None]),
    unseen("resnet34_224x224", "ResNet-34", [Some(2282.0), Some(2075.0)]),
    unseen("resnext50_32x4d_224x224", "ResNeXt-50 32x4d", [Some(437.0), None]),
    unseen("yolov3_640x640", "YOLOv3", [Some(163.0), Some(96.0)]),
    unseen("yolov5n_640x640", "YOLOv5n", [Some(1028.0), None]),
    unseen("yolov5m_640x640", "YOLOv5m", [Some(455.0), Some(322.0)]),
    unseen("yolov7_480x640", "YOLOv7 480×640", [Some(212.0), None]),
    unseen("yolov8n_640x640", "YOLOv8n", [Some(834.0), None]),
    unseen("yolov8l_640x640", "YOLOv8l", [Some(181.0), None]),
    unseen("yolox_m_nofocus_320x320", "YOLOX-m 320×320", [Some(349.0), None]),
    unseen("yolov9t_640x640", "YOLOv9t", [Some(415.0), None]),
    unseen("yolov10n_640x640", "YOLOv10n", [Some(738.0), None]),
    unseen("yolo11n_640x640", "YOLO11n", [Some(759.0), None]),
    unseen("unet_fcn_256x256", "U-Net 256×256", [Some(249.0), Some(198.0)]),
];

/// The vendor's model zoo 3.7.1: milliseconds of the NPU at 8 and at 16 bit.
pub(crate) const BUYI_UNSEEN: [Unseen; 3] = [
    unseen("yolov8n_640x640", "YOLOv8n", [Some(4.035), Some(8.245)]),
    unseen("yolov9t_640x640", "YOLOv9t", [Some(8.46), None]),
    unseen("yolov10n_640x640", "YOLOv10n", [Some(7.065), Some(9.263)]),
];
