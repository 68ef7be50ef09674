import APNSBasics
import Testing

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif
#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// Runs code with bytes that a fuzzer chooses.
///
/// In an ordinary test, these are the kept inputs in `Tests/Corpus`, a file for each target and a line (in Base64) for
/// each input. `ci/steps/fuzz` builds the tests with libFuzzer (https://llvm.org/docs/LibFuzzer.html), runs the test of one
/// target at a time, and libFuzzer chooses the inputs.
public enum Fuzz {
    public typealias Body = ([UInt8]) throws -> Void

    /// - Parameters:
    ///   - target: the name of the corpus and of the target.
    ///   - body: is called with one input after another. An input is at fault if `body` throws, records an issue,
    ///     traps or does not return.
    public static func run(_ target: String, _ body: @escaping Body) throws {
        guard let wanted = getenv("FUZZ_TARGET").map({ String(cString: $0) }) else {
            return try replay(target, body)
        }
        if wanted == target { try LibFuzzer.run(body) }
    }

    private static func replay(_ target: String, _ body: Body) throws {
        let inputs = try corpus(target)
        #expect(!inputs.isEmpty, "the corpus of \(target) is empty")
        for (line, input) in inputs.enumerated() {
            do {
                try body(input)
            } catch {
                Issue.record("\(target), line \(line + 1) of its corpus: \(error)")
            }
        }
    }

    private static func corpus(_ target: String) throws -> [[UInt8]] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let text = try String(contentsOf: folder.appending(path: "Corpus/\(target).txt"), encoding: .utf8)
        return try text.split(separator: "\n").map { line in
            try #require(Base64.decode(line.utf8), "a line of the corpus of \(target) is not Base64")
        }
    }
}

/// The fuzzer that `ci/steps/fuzz` links to the tests.
private enum LibFuzzer {
    private typealias Callback = @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
    private typealias Arguments = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
    private typealias Driver =
        @convention(c) (
            UnsafeMutablePointer<Int32>, UnsafeMutablePointer<Arguments>, Callback
        ) -> Int32

    // Unchecked: libFuzzer runs on one thread, which sets `body` before it starts, and calls the callback on it.
    nonisolated(unsafe) private static var body: Fuzz.Body = { _ in }
    /// Why the input of the current call is at fault.
    nonisolated(unsafe) private static var fault: String?

    /// Runs until libFuzzer ends the process. `FUZZ_ARGUMENTS` has its arguments, separated by blanks.
    static func run(_ body: @escaping Fuzz.Body) throws {
        let symbol = try #require(
            dlsym(nil, "LLVMFuzzerRunDriver"),
            "the tests are built without libFuzzer: run ci/steps/fuzz"
        )
        let driver = unsafeBitCast(symbol, to: Driver.self)
        Self.body = body
        let given = getenv("FUZZ_ARGUMENTS").map { String(cString: $0) } ?? ""
        var arguments: [UnsafeMutablePointer<CChar>?] = (["fuzz"] + given.split(separator: " ").map(String.init))
            .map { strdup($0) }
        var count = Int32(arguments.count)
        arguments.append(nil)
        let status = arguments.withUnsafeMutableBufferPointer { buffer -> Int32 in
            guard var base = buffer.baseAddress else { return 1 }
            return driver(&count, &base) { bytes, count in
                LibFuzzer.call([UInt8](UnsafeBufferPointer(start: bytes, count: count)))
                return 0
            }
        }
        exit(status)
    }

    /// Ends the process if the input is at fault, so that libFuzzer keeps the input.
    private static func call(_ input: [UInt8]) {
        self.fault = nil
        withKnownIssue(isIntermittent: true) {
            do {
                try self.body(input)
            } catch {
                self.fault = "\(error)"
            }
        } matching: { issue in
            self.fault = "\(issue)"
            return true
        }
        if let fault = self.fault { fatalError(fault) }
    }
}
