/// A request in the form that the session sends: fields shared with other requests, the few values that differ, and a
/// body.
///
/// The fields are sent in this order: the value of the session's first variable name (`:path`), `shared` (pseudo-header
/// fields first), `credential`, and the other variable values that are not empty.
package struct HTTP2Request: Sendable {
    package var shared: HeaderBlock
    package var credential: HeaderBlock?
    /// The values of the variable fields, concatenated.
    package var values: [UInt8]
    /// How many bytes of `values` belong to each of the session's variable names. 0 means that the field is absent.
    package var valueLengths: SIMD8<UInt16> {
        get { unsafeBitCast(self.lengths, to: SIMD8<UInt16>.self) }
        set { self.lengths = unsafeBitCast(newValue, to: (UInt64, UInt64).self) }
    }
    package var body: [UInt8]
    /// Not the vector itself, which would align an object with a request to 16 bytes: such an object costs the allocator
    /// more than twice as much.
    private var lengths: (UInt64, UInt64)

    package init(
        shared: HeaderBlock,
        credential: HeaderBlock?,
        values: [UInt8],
        valueLengths: SIMD8<UInt16>,
        body: [UInt8]
    ) {
        self.shared = shared
        self.credential = credential
        self.values = values
        self.lengths = unsafeBitCast(valueLengths, to: (UInt64, UInt64).self)
        self.body = body
    }
}

extension SIMD8<UInt16> {
    /// The sum of the lengths of a request's values.
    var wideSum: Int {
        var sum = 0
        for index in 0..<8 { sum += Int(self[index]) }
        return sum
    }
}
