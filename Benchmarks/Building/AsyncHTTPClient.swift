import AsyncHTTPClient
import Crypto
import Foundation
import NIOCore
import NIOSSL

/// What `APNSPool.swift` does, by async-http-client and a provider token of its own.
@main
struct Program {
    static func main() async throws {
        let arguments = CommandLine.arguments
        let key = try P256.Signing.PrivateKey(
            pemRepresentation: String(contentsOfFile: arguments[3], encoding: .utf8)
        )
        let header = base64URL(Data(#"{"alg":"ES256","kid":"\#(arguments[4])"}"#.utf8))
        let issuedAt = Int(Date().timeIntervalSince1970)
        let claims = base64URL(Data(#"{"iss":"\#(arguments[5])","iat":\#(issuedAt)}"#.utf8))
        let signature = try key.signature(for: Data("\(header).\(claims)".utf8)).rawRepresentation

        var tls = TLSConfiguration.makeClientConfiguration()
        tls.additionalTrustRoots = [.file(arguments[2])]
        let client = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: HTTPClient.Configuration(tlsConfiguration: tls)
        )
        let token = String(repeating: "0123456789abcdef", count: 4)
        var request = HTTPClientRequest(url: "https://localhost:\(arguments[1])/3/device/\(token)")
        request.method = .POST
        request.headers.add(name: "authorization", value: "bearer \(header).\(claims).\(base64URL(signature))")
        request.headers.add(name: "apns-topic", value: "com.example.app")
        request.headers.add(name: "apns-push-type", value: "alert")
        request.body = .bytes(ByteBuffer(string: #"{"aps":{"alert":"Hello"}}"#))
        let response = try await client.execute(request, timeout: .seconds(10))
        _ = try await response.body.collect(upTo: 4096)
        guard response.status == .ok else { throw Refused(status: response.status.code) }
        _ = readLine()
        try await client.shutdown()
    }

    private static func base64URL(_ data: Data) -> String {
        data.base64EncodedString().replacingOccurrences(of: "+", with: "-")
            .replacingOccurrences(of: "/", with: "_").replacingOccurrences(of: "=", with: "")
    }
}

struct Refused: Error {
    var status: UInt
}
