#if canImport(CryptoKit) || Sealing
    /// Base64 with the alphabet of URLs, without padding (RFC 4648 §5, §3.2).
    ///
    /// Not the plain alphabet, because many JSON writers turn its `/` into `\/`, and the text's length would depend on what
    /// was sealed. One text for the same bytes: what another encoder could have written for them is refused.
    enum Base64URL {
        private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

        /// The value of each byte, 0xFF for those outside the alphabet.
        private static let values: [UInt8] = {
            var values = [UInt8](repeating: 0xFF, count: 256)
            for (value, byte) in alphabet.enumerated() {
                values[Int(byte)] = UInt8(value)
            }
            return values
        }()

        /// How many characters so many bytes become.
        static func textCount(of byteCount: Int) -> Int {
            byteCount / 3 * 4 + (byteCount % 3 == 0 ? 0 : byteCount % 3 + 1)
        }

        /// The most bytes that become no more than so many characters.
        static func byteCount(within textCount: Int) -> Int {
            textCount / 4 * 3 + max(0, textCount % 4 - 1)
        }

        static func encode(_ bytes: [UInt8]) -> String {
            bytes.withUnsafeBufferPointer { bytes in
                alphabet.withUnsafeBufferPointer { alphabet in
                    String(unsafeUninitializedCapacity: textCount(of: bytes.count)) { text in
                        func character(_ group: UInt32, _ shift: UInt32) -> UInt8 {
                            alphabet[Int(group &>> shift & 63)]
                        }
                        var written = 0
                        var index = 0
                        while index &+ 3 <= bytes.count {
                            let group =
                                UInt32(bytes[index]) &<< 16 | UInt32(bytes[index &+ 1]) &<< 8
                                | UInt32(bytes[index &+ 2])
                            text[written] = character(group, 18)
                            text[written &+ 1] = character(group, 12)
                            text[written &+ 2] = character(group, 6)
                            text[written &+ 3] = character(group, 0)
                            written &+= 4
                            index &+= 3
                        }
                        let left = bytes.count &- index
                        guard left > 0 else { return written }
                        let second = left > 1 ? UInt32(bytes[index &+ 1]) : 0
                        let group = UInt32(bytes[index]) &<< 16 | second &<< 8
                        text[written] = character(group, 18)
                        text[written &+ 1] = character(group, 12)
                        guard left > 1 else { return written &+ 2 }
                        text[written &+ 2] = character(group, 6)
                        return written &+ 3
                    }
                }
            }
        }

        /// Nil for anything that `encode` would not have written.
        static func decode(_ text: String) -> [UInt8]? {
            // Native, where it came from Objective-C.
            var text = text
            return text.withUTF8 { text in
                values.withUnsafeBufferPointer { values in
                    var isText = true
                    let bytes = [UInt8](unsafeUninitializedCapacity: text.count / 4 * 3 + 2) { bytes, written in
                        isText = decode(text, values, to: bytes, &written)
                    }
                    return isText ? bytes : nil
                }
            }
        }

        private static func decode(
            _ text: UnsafeBufferPointer<UInt8>,
            _ values: UnsafeBufferPointer<UInt8>,
            to bytes: UnsafeMutableBufferPointer<UInt8>,
            _ written: inout Int
        ) -> Bool {
            func value(_ index: Int) -> UInt32 { UInt32(values[Int(text[index])]) }
            // A value is at most 63; that of a character outside the alphabet has all eight bits set.
            var index = 0
            while index &+ 4 <= text.count {
                let (first, second) = (value(index), value(index &+ 1))
                let (third, fourth) = (value(index &+ 2), value(index &+ 3))
                guard (first | second | third | fourth) < 64 else { return false }
                let group = first &<< 18 | second &<< 12 | third &<< 6 | fourth
                bytes[written] = UInt8(truncatingIfNeeded: group &>> 16)
                bytes[written &+ 1] = UInt8(truncatingIfNeeded: group &>> 8)
                bytes[written &+ 2] = UInt8(truncatingIfNeeded: group)
                written &+= 3
                index &+= 4
            }
            // The bits that are left over must be zero, or two texts would mean the same bytes.
            switch text.count &- index {
            case 0: return true
            case 2:
                let (first, second) = (value(index), value(index &+ 1))
                guard (first | second) < 64, second & 0xF == 0 else { return false }
                bytes[written] = UInt8(truncatingIfNeeded: first &<< 2 | second &>> 4)
                written &+= 1
                return true
            case 3:
                let (first, second, third) = (value(index), value(index &+ 1), value(index &+ 2))
                guard (first | second | third) < 64, third & 3 == 0 else { return false }
                bytes[written] = UInt8(truncatingIfNeeded: first &<< 2 | second &>> 4)
                bytes[written &+ 1] = UInt8(truncatingIfNeeded: second &<< 4 | third &>> 2)
                written &+= 2
                return true
            default: return false
            }
        }
    }
#endif
