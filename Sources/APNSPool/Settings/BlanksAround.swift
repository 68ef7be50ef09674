extension String {
    /// Without the white space (Unicode's) at its beginning and end, which copying leaves.
    var withoutBlanksAround: String {
        // Most have none, which needs no look into Unicode's tables.
        func isPlain(_ byte: UInt8?) -> Bool { (0x21...0x7E).contains(byte ?? 0) }
        if isPlain(self.utf8.first), isPlain(self.utf8.last) { return self }
        var text = self[...]
        while let first = text.first, first.isWhitespace { text.removeFirst() }
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return String(text)
    }
}
