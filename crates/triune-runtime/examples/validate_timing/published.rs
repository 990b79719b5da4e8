//! Published figures to compare with.

/// A network on boards of four cores, `PCIe` and M.2: frames per second, end to end.
pub(crate) struct Throughput {
    pub(crate) topology: &'static str,
    pub(crate) name: &'static str,
    /// The first board, the second.
    pub(crate) fps: [u32; 2],
    /// Whether the fit may see the first figure; the second is never seen.
    pub(crate) fitted: bool,
}

/// The vendor's table of release 1.2.5.
pub(crate) const METIS: [Throughput; 8] = [
    Throughput { topology: "resnet18_224x224", name: "ResNet-18", fps: [3904, 3749], fitted: true },
    Throughput { topology: "resnet50_224x224", name: "ResNet-50", fps: [1946, 1756], fitted: true },
    Throughput { topology: "mobilenet_v2_224x224", name: "MobileNetV2", fps: [3670, 3638], fitted: true },
    Throughput { topology: "yolov5s_640x640", name: "YOLOv5s", fps: [865, 824], fitted: true },
    Throughput {
        topology: "efficientnet_b0_224x224",
        name: "EfficientNet-B0",
        fps: [1429, 1450],
        fitted: true,
    },
    Throughput {
        topology: "squeezenet1_1_224x224",
        name: "SqueezeNet 1.1",
        fps: [7298, 7264],
        fitted: false,
    },
    Throughput { topology: "wide_resnet50_224x224", name: "Wide ResNet-50", fps: [436, 236], fitted: false },
    Throughput { topology: "yolov8s_640x640", name: "YOLOv8s", fps: [643, 524], fitted: false },
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

/// A network on BUYI: the NPU's own milliseconds.
pub(crate) struct Latency {
    pub(crate) topology: &'static str,
    pub(crate) name: &'static str,
    /// 8 bit, 16 bit.
    pub(crate) millis: [f64; 2],
    /// Whether the fit may see them.
    pub(crate) fitted: [bool; 2],
}

/// The vendor's model zoo at 860 MHz.
pub(crate) const BUYI: [Latency; 4] = [
    Latency { topology: "yolov5s_640x640", name: "YOLOv5s", millis: [5.85, 13.37], fitted: [true, true] },
    Latency {
        topology: "se_resnet34_224x224",
        name: "SE-ResNet34",
        millis: [3.68, 7.26],
        fitted: [true, false],
    },
    Latency {
        topology: "yolov8n_cls_224x224",
        name: "YOLOv8n-cls",
        millis: [0.930, 1.941],
        fitted: [true, true],
    },
    Latency { topology: "yolox_s_640x640", name: "YOLOX-s", millis: [7.41, 16.79], fitted: [false, false] },
];
