/// Finds the known name that a misspelled one most likely means. Pure.
@_spi(Relay) public enum NearestKey {
    /// The nearest of `names`; nil if none is near. The first rule that finds a name applies:
    /// 1. It has the same last part, with the fewest changes before it.
    /// 2. It takes the fewest changes: at most one, or a third of the characters of `name`.
    /// 3. It begins with `name`, which has 8 characters or more.
    @_spi(Relay) public static func of(_ name: String, among names: [String]) -> String? {
        let wanted = Array(name.lowercased().utf8.prefix(100))
        // `maxOverflow` means `pool.maxOverflow`, at any edit distance.
        let last = self.last(wanted)
        let same = names.filter { self.last(Array($0.lowercased().utf8)) == last }
        var best: (name: String, distance: Int)?
        for candidate in same.isEmpty ? names : same {
            let distance = self.distance(wanted, Array(candidate.lowercased().utf8))
            if distance < (best?.distance ?? .max) { best = (candidate, distance) }
        }
        if let best, !same.isEmpty || best.distance <= max(1, wanted.count / 3) { return best.name }
        // `APNS_TIMEOUT` means `APNS_TIMEOUTS_DEADLINE`.
        return wanted.count < 8 ? nil : names.first { $0.lowercased().utf8.starts(with: wanted) }
    }

    private static func last(_ name: [UInt8]) -> ArraySlice<UInt8>? {
        name.split(separator: UInt8(ascii: ".")).last
    }

    /// The number of insertions, deletions and replacements that convert one into the other (Levenshtein).
    package static func distance(_ first: [UInt8], _ second: [UInt8]) -> Int {
        var row = Array(0...second.count)
        for (line, byte) in first.enumerated() {
            var diagonal = row[0]
            row[0] = line + 1
            for (column, other) in second.enumerated() {
                let above = row[column + 1]
                row[column + 1] = min(above + 1, row[column] + 1, diagonal + (byte == other ? 0 : 1))
                diagonal = above
            }
        }
        return row[second.count]
    }
}
