import Foundation
import Metrics
import Testing

@testable import APNSRelay

struct PrometheusMetricsTests {
    @Test("Counters, gauges, timers and recorders are written with their values")
    func values() throws {
        let metrics = PrometheusMetrics()
        let counter = Counter(label: "requests_total", dimensions: [("b", "2"), ("a", "1")], factory: metrics)
        counter.increment(by: 3)
        counter.increment()
        FloatingPointCounter(label: "cost_total", factory: metrics).increment(by: 0.5)
        let meter = Meter(label: "depth", factory: metrics)
        meter.set(5)
        meter.increment(by: 2.5)
        meter.decrement(by: 1)
        Gauge(label: "level", factory: metrics).record(-7)
        let timer = Timer(label: "wait", dimensions: [("lane", "bulk")], factory: metrics)
        for milliseconds in [1, 3, 70, 100_000] { timer.recordMilliseconds(milliseconds) }
        Recorder(label: "size", factory: metrics).record(1.5)
        let text = try PrometheusText(metrics.text())
        #expect(text.value("requests_total", ["a": "1", "b": "2"]) == 4)
        #expect(text.value("cost_total") == 0.5)
        #expect(text.value("depth") == 6.5)
        #expect(text.value("level") == -7)
        #expect(text.kinds["level"] == "gauge")
        #expect(text.value("wait_bucket", ["lane": "bulk", "le": "0.001"]) == 1)
        #expect(text.value("wait_bucket", ["lane": "bulk", "le": "0.005"]) == 2)
        #expect(text.value("wait_bucket", ["lane": "bulk", "le": "30"]) == 3)
        #expect(text.value("wait_count", ["lane": "bulk"]) == 4)
        #expect(text.value("wait_sum", ["lane": "bulk"]).map { abs($0 - 100.074) < 1e-9 } == true)
        #expect(text.value("size_sum") == 1.5)
        #expect(text.value("apns_relay_metric_series_discarded_total") == 0)
    }

    @Test("Names and labels are made valid, and label values can be read back")
    func escaping() throws {
        let metrics = PrometheusMetrics()
        let values = ["", "\\", "\"", "\n", "a\\n\"b\"\nc", "{},=", "ä€😀", "\u{0}\r\t", "\r\n"]
        for (index, value) in values.enumerated() {
            Counter(label: "x.y-z", dimensions: [("label \(index)", value)], factory: metrics).increment()
        }
        for label in ["", "9", "ü", "a b\n", "__name__"] { Meter(label: label, factory: metrics).set(1) }
        Timer(label: "t", dimensions: [("le", "1"), ("le", "2"), ("a", "3")], factory: metrics).recordSeconds(1)
        Meter(label: "long", dimensions: [("v", String(repeating: "x", count: 10_000))], factory: metrics).set(1)
        let text = try PrometheusText(metrics.text())
        for (index, value) in values.enumerated() {
            #expect(text.value("x_y_z", ["label_\(index)": value]) == 1)
        }
        #expect(text.value("t_count", ["le_": "1", "a": "3"]) == 1)
        #expect(text.value("_9") == 1)
        #expect(text.samples.first { $0.name == "long" }?.labels["v"]?.count == 256)
    }

    @Test("The first use of a name decides about its kind; other uses export nothing and are counted")
    func conflicts() throws {
        let metrics = PrometheusMetrics()
        Timer(label: "wait", factory: metrics).recordSeconds(1)
        Counter(label: "wait", factory: metrics).increment()
        Counter(label: "wait_count", factory: metrics).increment()
        Counter(label: "size_sum", factory: metrics).increment()
        Recorder(label: "size", factory: metrics).record(1)
        Gauge(label: "wait", dimensions: [("a", "1")], factory: metrics).record(1)
        Counter(label: PrometheusMetrics.discarded.name, factory: metrics).increment()
        let text = try PrometheusText(metrics.text())
        #expect(text.value("wait_count") == 1)
        #expect(text.value("size_sum") == 1)
        #expect(text.kinds["size_sum"] == "counter")
        #expect(text.value(PrometheusMetrics.discarded.name) == 5)
    }

    @Test("Series above the limit export nothing; a destroyed one makes room")
    func limit() throws {
        let metrics = PrometheusMetrics(definitions: [], maxSeries: 100)
        let meters = (0..<150).map { Meter(label: "m", dimensions: [("n", "\($0)")], factory: metrics) }
        for meter in meters { meter.set(1) }
        #expect(try PrometheusText(metrics.text()).samples.count { $0.name == "m" } == 100)
        #expect(try PrometheusText(metrics.text()).value(PrometheusMetrics.discarded.name) == 50)
        meters[0].destroy()
        meters[149].destroy()
        Meter(label: "m", dimensions: [("n", "new")], factory: metrics).set(2)
        let text = try PrometheusText(metrics.text())
        #expect(text.samples.count { $0.name == "m" } == 100)
        #expect(text.value("m", ["n": "0"]) == nil)
        #expect(text.value("m", ["n": "new"]) == 2)
    }

    @Test("Metrics with equal labels share a series, which lasts until each of them is destroyed")
    func sharing() throws {
        let metrics = PrometheusMetrics()
        let first = Counter(label: "c_total", dimensions: [("a", "1")], factory: metrics)
        let second = Counter(label: "c_total", dimensions: [("a", "1")], factory: metrics)
        first.increment()
        second.increment()
        #expect(try PrometheusText(metrics.text()).value("c_total", ["a": "1"]) == 2)
        first.destroy()
        #expect(try PrometheusText(metrics.text()).value("c_total", ["a": "1"]) == 2)
        second.destroy()
        let text = try PrometheusText(metrics.text())
        #expect(text.value("c_total", ["a": "1"]) == nil)
        #expect(text.kinds["c_total"] == nil)
    }

    @Test("Undefined values and negative increments are ignored, and no value traps")
    func extremes() throws {
        let metrics = PrometheusMetrics()
        let handler = metrics.makeCounter(label: "c_total", dimensions: [])
        for amount in [Int64.min, -1, 0, 5, Int64.max, Int64.max] { handler.increment(by: amount) }
        let floating = metrics.makeFloatingPointCounter(label: "f_total", dimensions: [])
        for amount in [Double.nan, -.infinity, .infinity, -1, 2] { floating.increment(by: amount) }
        let histogram = metrics.makeRecorder(label: "h", dimensions: [], aggregate: true)
        for value in [Double.nan, .infinity, -.infinity, 1e300, -1e300] { histogram.record(value) }
        let gauge = metrics.makeMeter(label: "g", dimensions: [])
        for value in [Double.nan, .greatestFiniteMagnitude, .infinity] { gauge.set(value) }
        metrics.makeTimer(label: "t", dimensions: []).recordNanoseconds(.min)
        let lines = metrics.text()
        #expect(lines.contains("\ng +Inf\n"))
        #expect(lines.contains("\nf_total 2\n"))
        #expect(lines.contains("\nh_count 2\n"))
    }

    @Test("No increment is lost while many threads count and others read")
    func concurrency() async throws {
        let metrics = PrometheusMetrics()
        let rounds = 20_000
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    let counter = Counter(label: "c_total", factory: metrics)
                    let meter = Meter(label: "m", factory: metrics)
                    let recorder = Recorder(label: "r", factory: metrics)
                    for round in 0..<rounds {
                        counter.increment()
                        meter.increment()
                        recorder.record(0.5)
                        if worker == 0, round % 1_000 == 0 {
                            #expect(throws: Never.self) { try PrometheusText(metrics.text()) }
                        }
                    }
                }
            }
        }
        let text = try PrometheusText(metrics.text())
        #expect(text.value("c_total") == Double(8 * rounds))
        #expect(text.value("m") == Double(8 * rounds))
        #expect(text.value("r_count") == Double(8 * rounds))
        #expect(text.value("r_sum") == Double(4 * rounds))
    }
}
