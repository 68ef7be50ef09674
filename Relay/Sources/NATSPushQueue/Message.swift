#if NATS
    import CNATS

    /// What is in a `natsMsg`.
    enum Message {
        static func bytes(of message: OpaquePointer?) -> [UInt8] {
            let count = Int(clamping: natsMsg_GetDataLength(message))
            guard count > 0, let data = natsMsg_GetData(message) else { return [] }
            return Array(UnsafeRawBufferPointer(start: data, count: count))
        }
    }
#endif
