import CAPNSOpenSSL
import NIOCore

/// The buffers that an `SSL` reads from and writes to: NIO's buffers behind a custom BIO. A memory BIO would copy each
/// record once more, and would zero the memory first.
///
/// Owned by one `TLSSession`, which frees the `SSL`, and with it the BIO, before this object. Confined to the session's
/// event loop.
final class TLSBuffers {
    // `@exclusivity(unchecked)`: when OpenSSL calls back into this class, `TLSSession` accesses none of these.
    /// Ciphertext from the network.
    @exclusivity(unchecked) var input = ByteBuffer()
    /// How many records OpenSSL has begun to read since this was set to 0. It reads the header of a record, which has
    /// five bytes, separately from the rest. Another read of five bytes counts, too: a record of which exactly five
    /// bytes were missing.
    @exclusivity(unchecked) var recordCount = 0
    /// Ciphertext for the network.
    @exclusivity(unchecked) var output = ByteBuffer()

    /// The BIO method, created once per process. `nil` if OpenSSL is out of memory.
    ///
    /// `nonisolated(unsafe)`: written only here, and OpenSSL reads a method without changing it.
    nonisolated(unsafe) private static let method: OpaquePointer? = {
        let index = BIO_get_new_index()
        guard index >= 0, let method = BIO_meth_new(index | capns_bio_type_source_sink, "capns buffers") else {
            return nil
        }
        BIO_meth_set_read(method) { bio, target, count in
            TLSBuffers.with(bio, otherwise: -1) { buffers in
                guard let target, count > 0, buffers.input.readableBytes > 0 else {
                    capns_bio_set_retry_read(bio)  // no bytes yet, not the end
                    return -1
                }
                let taken = min(Int(count), buffers.input.readableBytes)
                buffers.input.withUnsafeReadableBytes { bytes in
                    if let base = bytes.baseAddress {
                        UnsafeMutableRawPointer(target).copyMemory(from: base, byteCount: taken)
                    }
                }
                buffers.input.moveReaderIndex(forwardBy: taken)
                if count == 5 { buffers.recordCount &+= 1 }
                return Int32(taken)
            }
        }
        BIO_meth_set_write(method) { bio, source, count in
            TLSBuffers.with(bio, otherwise: -1) { buffers in
                guard let source, count > 0 else { return 0 }
                buffers.output.writeBytes(UnsafeRawBufferPointer(start: source, count: Int(count)))
                return count
            }
        }
        BIO_meth_set_ctrl(method) { bio, command, _, _ in
            switch command {
            case BIO_CTRL_FLUSH: 1
            case BIO_CTRL_PENDING: TLSBuffers.with(bio, otherwise: 0) { $0.input.readableBytes }
            case BIO_CTRL_WPENDING: TLSBuffers.with(bio, otherwise: 0) { $0.output.readableBytes }
            default: 0
            }
        }
        return method
    }()

    /// Creates a BIO on these buffers, to be owned by an `SSL`. It must not outlive this object.
    func makeBIO() -> OpaquePointer? {
        guard let method = Self.method, let bio = BIO_new(method) else { return nil }
        BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        BIO_set_init(bio, 1)
        return bio
    }

    @inline(__always)
    private static func with<Value>(
        _ bio: OpaquePointer?,
        otherwise missing: Value,
        _ body: (TLSBuffers) -> Value
    ) -> Value {
        guard let bio, let context = BIO_get_data(bio) else { return missing }
        capns_bio_clear_retry(bio)
        return Unmanaged<TLSBuffers>.fromOpaque(context)._withUnsafeGuaranteedRef(body)
    }
}
