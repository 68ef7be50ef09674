import TestSupport

/// Frames that a server must not send, and some that a client must ignore.
enum MalformedFrame: String, Sendable, CaseIterable {
    /// An unknown frame type, which the client must ignore (RFC 9113, section 5.5).
    case unknownType = "unknown-type"
    /// Longer than SETTINGS_MAX_FRAME_SIZE: FRAME_SIZE_ERROR.
    case tooLong = "too-long"
    /// A header block on the request's stream that HPACK cannot decode: COMPRESSION_ERROR.
    case badHeaderBlock = "bad-header-block"
    /// Headers on the request's stream without `:status`: a stream error.
    case noStatus = "no-status"
    /// DATA on the request's stream before its headers.
    case dataBeforeHeaders = "data-before-headers"
    /// DATA on a stream that was never opened: PROTOCOL_ERROR.
    case dataOnIdleStream = "data-on-idle-stream"
    /// SETTINGS with a length that is not a multiple of 6: FRAME_SIZE_ERROR.
    case badSettingsLength = "bad-settings-length"
    /// SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1: FLOW_CONTROL_ERROR.
    case badSettingsValue = "bad-settings-value"
    /// SETTINGS on a stream: PROTOCOL_ERROR.
    case settingsOnStream = "settings-on-stream"
    /// An acknowledgement of SETTINGS that were not sent.
    case unexpectedSettingsAcknowledgement = "unexpected-settings-ack"
    /// A send window above 2^31-1: FLOW_CONTROL_ERROR.
    case windowOverflow = "window-overflow"
    /// A WINDOW_UPDATE with the increment 0: PROTOCOL_ERROR.
    case zeroWindowUpdate = "zero-window-update"
    /// A PUSH_PROMISE to a client that has disabled push: PROTOCOL_ERROR.
    case pushPromise = "push-promise"
    /// CONTINUATION without a preceding HEADERS frame: PROTOCOL_ERROR.
    case continuationAlone = "continuation-alone"
    /// A PING with a length other than 8: FRAME_SIZE_ERROR.
    case badPingLength = "bad-ping-length"
    /// 64 bytes without a meaning.
    case garbage
    /// A response in HTTP/1.1.
    case http11 = "http/1.1"

    /// - Parameter streamID: the stream of the request.
    func bytes(requestStreamID streamID: Int32) -> [UInt8] {
        let onRequest = RawFrame.Stream.request
        let frame: RawFrame
        switch self {
        case .unknownType: frame = RawFrame(type: 0xFA, flags: 0xFF, payload: [1, 2, 3, 4, 5, 6, 7])
        case .tooLong:
            let size = 1 << 20
            frame = RawFrame(type: 0, stream: onRequest, payload: Array(repeating: 0, count: size))
        // No table has an entry with index 127 (RFC 7541, section 2.3.3).
        case .badHeaderBlock: frame = RawFrame(type: 1, flags: 5, stream: onRequest, payload: [0xFF, 0x00])
        // A literal field `a: b` without indexing.
        case .noStatus: frame = RawFrame(type: 1, flags: 5, stream: onRequest, payload: [0, 1, 0x61, 1, 0x62])
        case .dataBeforeHeaders: frame = RawFrame(type: 0, stream: onRequest, payload: [0x78])
        case .dataOnIdleStream: frame = RawFrame(type: 0, stream: .number(0x7FFF_FFFD), payload: [0x78])
        case .badSettingsLength: frame = RawFrame(type: 4, payload: [0, 3, 0, 0, 1])
        case .badSettingsValue: frame = RawFrame(type: 4, payload: [0, 4, 0xFF, 0xFF, 0xFF, 0xFF])
        case .settingsOnStream: frame = RawFrame(type: 4, stream: .number(1), payload: [0, 3, 0, 0, 0, 1])
        case .unexpectedSettingsAcknowledgement: frame = RawFrame(type: 4, flags: 1)
        case .windowOverflow: frame = RawFrame(type: 8, payload: [0x7F, 0xFF, 0xFF, 0xFF])
        case .zeroWindowUpdate: frame = RawFrame(type: 8, payload: [0, 0, 0, 0])
        case .pushPromise:
            // Promises stream 2: GET https /.
            frame = RawFrame(type: 5, flags: 4, stream: onRequest, payload: [0, 0, 0, 2, 0x82, 0x87, 0x84])
        case .continuationAlone: frame = RawFrame(type: 9, flags: 4, stream: .number(1), payload: [0x88])
        case .badPingLength: frame = RawFrame(type: 6, payload: [1, 2, 3])
        case .garbage: return (0..<64).map { UInt8(truncatingIfNeeded: $0 * 151 + 89) }
        case .http11: return Array("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".utf8)
        }
        return frame.bytes(requestStreamID: streamID)
    }
}
