import APNSModel
import PushQueue

/// The batches, as small values in the queue.
struct BatchStore: Sendable {
    /// The prefix of the keys of all values.
    static let prefix = "batch"
    private static let states = "batch-state/"

    let queue: any PushQueue

    private static func key(_ id: APNSID) -> String { "batch/\(id)" }
    private static func stateKey(_ id: APNSID) -> String { Self.states + "\(id)" }
    private static func idempotencyKey(_ batch: Batch) -> String? {
        batch.idempotencyKey.map { "batch-key/\(batch.caller)/\($0)" }
    }

    /// Stores a new batch.
    ///
    /// - Returns: the id of the batch that has the same caller and idempotency key; nil if there is none, and the new one is
    ///   stored.
    func create(_ batch: Batch, _ state: BatchState) async throws(QueueError) -> APNSID? {
        try await self.queue.requireRoom()
        guard let key = Self.idempotencyKey(batch) else {
            try await self.write(batch, state)
            return nil
        }
        let id = Array("\(batch.id)".utf8)
        while true {
            let stored = try await self.queue.value(forKey: key)
            let known = stored.flatMap { APNSID(String(decoding: $0, as: UTF8.self)) }
            if let known, try await self.storedState(known) != nil { return known }
            // Without a state, its relay has died before it stored the batch, or is about to store it.
            guard try await self.queue.exchangeValue(id, forKey: key, expecting: stored) else { continue }
            if let known { try await self.removeValues(of: known) }
            try await self.write(batch, state)
            if try await self.queue.value(forKey: key) == id { return nil }
            // Another relay has taken the key meanwhile.
            try await self.removeValues(of: batch.id)
        }
    }

    /// Writes the state last, because a batch without a state does not exist.
    private func write(_ batch: Batch, _ state: BatchState) async throws(QueueError) {
        try await self.queue.setValue(StoredJSON.encode(batch), forKey: Self.key(batch.id))
        try await self.queue.setValue(StoredJSON.encode(state), forKey: Self.stateKey(batch.id))
    }

    /// A batch; nil if it is unknown.
    func batch(_ id: APNSID) async throws(QueueError) -> Batch? {
        try await self.queue.value(forKey: Self.key(id)).flatMap {
            StoredJSON.decode(Batch.self, from: $0)
        }
    }

    /// The state of a batch; nil if it is unknown.
    func state(_ id: APNSID) async throws(QueueError) -> BatchState? {
        try await self.queue.value(forKey: Self.stateKey(id)).flatMap { Self.state($0) }
    }

    /// The stored state; nil if there is none.
    func storedState(_ id: APNSID) async throws(QueueError) -> [UInt8]? {
        try await self.queue.value(forKey: Self.stateKey(id))
    }

    static func state(_ value: [UInt8]) -> BatchState? {
        StoredJSON.decode(BatchState.self, from: value)
    }

    /// The states of all batches.
    func states() async throws(QueueError) -> [APNSID: BatchState] {
        var states: [APNSID: BatchState] = [:]
        for (key, value) in try await self.queue.values(withPrefix: Self.states) {
            guard let id = APNSID(String(key.dropFirst(Self.states.count))) else { continue }
            states[id] = Self.state(value)
        }
        return states
    }

    /// Changes the state of a batch. Other relays may change it at the same time; no change is lost.
    ///
    /// - Returns: the new state; nil if the batch is unknown.
    @discardableResult
    func change(_ id: APNSID, _ change: (inout BatchState) -> Void) async throws(QueueError) -> BatchState? {
        while true {
            guard let stored = try await self.queue.value(forKey: Self.stateKey(id)), var state = Self.state(stored)
            else {
                return nil
            }
            let before = state
            change(&state)
            if state == before { return state }
            let new = StoredJSON.encode(state)
            if try await self.queue.exchangeValue(new, forKey: Self.stateKey(id), expecting: stored) { return state }
        }
    }

    /// Removes everything of a batch.
    func remove(_ batch: Batch) async throws(QueueError) {
        if let key = Self.idempotencyKey(batch) {
            _ = try await self.queue.exchangeValue(nil, forKey: key, expecting: Array("\(batch.id)".utf8))
        }
        try await self.removeValues(of: batch.id)
    }

    private func removeValues(of id: APNSID) async throws(QueueError) {
        try await self.queue.setValue(nil, forKey: Self.stateKey(id))
        try await self.queue.setValue(nil, forKey: Self.key(id))
    }
}

extension BatchStore {
    /// Calls the store, and converts its errors to errors of the API.
    @discardableResult
    func calling<Value: Sendable>(
        _ body: (BatchStore) async throws(QueueError) -> Value
    ) async throws(APIError) -> Value {
        try await self.queue.calling { _ throws(QueueError) in try await body(self) }
    }
}
