import APNSModel
import Foundation
import HTTPTypes
import WebPushGateway

// Lets libFuzzer choose requests for Web Push: `ci/steps/fuzz-web-push` builds this program with the fuzzer. Its arguments are those
// of libFuzzer.
//
// An input is a request: header fields up to an empty line, and the body. An accepted request must keep the promises of its
// types, and no input may trap.

/// Ends the process, so that libFuzzer keeps the input.
func require(_ condition: Bool, _ promise: String) {
    if !condition { fatalError(promise) }
}

struct Input {
    var fields = HTTPFields()
    var body: [UInt8]

    init(_ bytes: [UInt8]) {
        var lines = bytes[...]
        while let end = lines.firstIndex(of: UInt8(ascii: "\n")) {
            let line = String(decoding: lines[..<end], as: UTF8.self)
            lines = lines[(end + 1)...]
            if line.isEmpty { break }
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2, let name = HTTPField.Name(String(parts[0])) {
                self.fields.append(HTTPField(name: name, value: String(parts[1])))
            }
        }
        self.body = Array(lines)
    }
}

let verifier = VAPIDVerifier(origins: ["https://push.example.com"])
let notification = WebPushNotification(
    subscription: "kX8dZq2vYbRn5tGm",
    topic: "com.grasscove.Fern",
    fallbackKey: "NEW_MESSAGE"
)
let keys = DeviceTokenKeys([UInt8](repeating: 7, count: 32))

func checkRequest(_ input: Input) {
    guard let request = try? WebPushRequest(input.fields, body: input.body) else { return }
    require((0...WebPushRequest.maxTimeToLive).contains(request.timeToLive), "the time to live is too long")
    require(request.topic.map { (1...32).contains($0.utf8.count) } ?? true, "the topic has a wrong length")
    if let content = request.content {
        require(content.salt.count == 16 && content.senderKey.count == 65, "a message lacks its salt or its key")
        require(content.body == input.body && content.body.count <= WebPushRequest.maxBodyBytes, "the body was changed")
    }
    for fetch in [nil, "0189c9d0-7c5e-7000-8000-000000000000"] {
        guard let push = try? notification.push(for: request, now: 1_795_440_000, fetch: fetch) else {
            require(fetch == nil, "a reference does not fit")
            continue
        }
        require(push.payload.count <= 4_096, "the payload is too large")
    }
}

func checkTexts(_ input: Input) {
    let text = String(decoding: input.body, as: UTF8.self)
    if let bytes = Base64Text.decode(text) {
        require(Base64Text.decode(Base64Text.encode(bytes)) == bytes, "base64url does not come back")
    }
    if let key = VAPIDKey(text) { require(key.bytes.count == 65, "a key has a wrong length") }
    if let secret = EndpointSecret(text) { require(secret.text == text, "an endpoint has two texts") }
    require((try? keys?.open(input.body, for: "s1")) == nil, "a token was decrypted that nobody has encrypted")
}

func check(_ bytes: [UInt8]) {
    let input = Input(bytes)
    checkRequest(input)
    checkTexts(input)
    // Nobody knows the key of a signature that the fuzzer makes, but it may find a known one in the corpus: that is a pass.
    _ = try? verifier.sender(input.fields, now: 1_795_440_000)
}

typealias Driver =
    @convention(c) (
        UnsafeMutablePointer<Int32>,
        UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>>,
        @convention(c) (UnsafePointer<UInt8>?, Int) -> Int32
    ) -> Int32

guard let symbol = dlsym(nil, "LLVMFuzzerRunDriver") else {
    print("This program is built without libFuzzer. Use ci/steps/fuzz-web-push.")
    exit(69)
}
var count = CommandLine.argc
var arguments = CommandLine.unsafeArgv
exit(
    unsafeBitCast(symbol, to: Driver.self)(&count, &arguments) { bytes, count in
        check([UInt8](UnsafeBufferPointer(start: bytes, count: count)))
        return 0
    }
)
