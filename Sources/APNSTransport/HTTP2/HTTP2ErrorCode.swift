/// An HTTP/2 error code (RFC 9113, section 7). Peers may send codes that are not listed here.
package struct HTTP2ErrorCode: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    package let rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let noError = HTTP2ErrorCode(rawValue: 0x0)
    package static let internalError = HTTP2ErrorCode(rawValue: 0x2)
    package static let streamClosed = HTTP2ErrorCode(rawValue: 0x5)
    package static let refusedStream = HTTP2ErrorCode(rawValue: 0x7)
    package static let cancel = HTTP2ErrorCode(rawValue: 0x8)
    package static let enhanceYourCalm = HTTP2ErrorCode(rawValue: 0xb)

    package var description: String {
        let names = [
            "NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT", "STREAM_CLOSED",
            "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR", "CONNECT_ERROR", "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
        ]
        return self.rawValue < UInt32(names.count) ? names[Int(self.rawValue)] : "error \(self.rawValue)"
    }
}
