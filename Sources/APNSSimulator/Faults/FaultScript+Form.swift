internal import APNSModel

extension FaultScript: ScriptObject {
    package init(_ object: JSONReader) throws(JSONFieldError) {
        self.init()
        try self.read(object)
    }

    /// - Parameter value: a script, or an array of faults without a script around it.
    init(_ value: JSONValue) throws(JSONFieldError) {
        if case .array = value {
            self.init(try JSONField.list(of: .object).read(value, ""))
        } else {
            try self.init(JSONReader(value, path: ""))
        }
    }

    package mutating func describe(in form: inout ScriptForm) {
        form.optional("seed", &self.seed, .integer(in: 0...UInt64(Int64.max)))
        form.required("faults", &self.faults, .list(of: .object), else: "expected a list of faults")
    }
}

extension Fault: ScriptObject {
    package init(_ object: JSONReader) throws(JSONFieldError) {
        self.init(.refuse)
        try self.read(object)
        let events = self.effect.events
        if let event = self.when.event, !events.contains(event), let when = object.object["when"] {
            let names = events.map(\.rawValue).joined(separator: ", ")
            throw try JSONReader(when, path: object.keyPath("when"))
                .error("on", "the effect '\(self.effect.name)' applies only to \(names)")
        }
    }

    package mutating func describe(in form: inout ScriptForm) {
        form.value("when", &self.when, .object)
        form.required("effect", &self.effect, .object, else: "a fault needs an effect")
    }
}

extension FaultTrigger: ScriptObject {
    package init(_ object: JSONReader) throws(JSONFieldError) {
        self.init()
        try self.read(object)
    }

    package mutating func describe(in form: inout ScriptForm) {
        form.optional("on", &self.event, .choice)
        form.value("skip", &self.skip, .integer(in: 0...Int.max), omitting: 0)
        // The same as in Swift: the third event is the one after two that are skipped.
        var number: Int?
        form.optional("nth", &number, .integer(in: 1...Int.max))
        if let number {
            if self.skip != 0 { form.fail("nth", "give either 'nth' or 'skip', not both") }
            self.skip = number - 1
        }
        var times = self.times
        var isEndless = times == nil
        form.optional("times", &times, .integer(in: 0...Int.max))
        form.value("always", &isEndless, .bool, omitting: false)
        if isEndless, times != nil { form.fail("times", "give either 'times' or 'always', not both") }
        self.times = isEndless ? nil : times ?? 1
        form.value("every", &self.every, .integer(in: 1...Int.max), omitting: 1)
        form.value("probability", &self.probability, .number(in: 0...1), omitting: 1)
        form.optional("perSecond", &self.perSecond, .integer(in: 1...Int.max))
        var tokens = self.deviceTokens?.sorted()
        form.optional("deviceTokens", &tokens, .list(of: .text))
        self.deviceTokens = tokens.map { Set($0.map { $0.lowercased() }) }
        form.optional("connection", &self.connection, .integer(in: 1...Int.max))
        form.value("fromMilliseconds", &self.from, .milliseconds, omitting: .zero)
        form.optional("toMilliseconds", &self.until, .milliseconds)
        form.optional("periodMilliseconds", &self.period, .milliseconds)
        if let period, period < .milliseconds(1) {
            form.fail("periodMilliseconds", "a period must be at least one millisecond")
        }
    }
}
