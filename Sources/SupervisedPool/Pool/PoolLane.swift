/// Which of two queues a checkout waits in.
///
/// Work that somebody waits for and work by the million share the same workers: a one-time code must not stand behind a
/// campaign. An interactive checkout that waits gets the next free slot before any bulk checkout, and bulk checkouts
/// leave a part of each worker free (``PoolConfiguration/interactiveReservePercent``).
public enum PoolLane: Sendable, Hashable {
    /// Single pieces of work. The default.
    case interactive
    /// Many pieces of work by one caller, which asks again and again: callers take turns.
    case bulk
}
