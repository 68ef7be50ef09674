/// Receives the events of a connection. All calls are made on the connection's event loop and pass only values, so that
/// an actor whose executor is that loop can enter its isolation.
package protocol ConnectionDelegate: AnyObject {
    /// The peer's first SETTINGS have arrived: requests may be submitted.
    func connection(_ id: Int, isReadyWithMaxConcurrentStreams limit: Int)
    /// The peer allows this many streams now, or the send window carries only this many.
    func connection(_ id: Int, streamLimitChangedTo limit: Int)
    /// The peer accepts no more streams on this connection. Open ones may finish.
    func connection(_ id: Int, isGoingAway error: WireError)
    func connection(_ id: Int, finished results: [StreamResult])
    /// The connection has ended. Called once, after the results of all requests submitted so far. A request that is
    /// submitted later still gets its result.
    func connection(_ id: Int, isClosed error: WireError)
}
