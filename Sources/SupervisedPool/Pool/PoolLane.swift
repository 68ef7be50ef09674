/// The queue in which a checkout waits.
///
/// Interactive work, which a user is waiting for, shares its workers with bulk work, which may be millions of items: a
/// one-time code must not wait behind a campaign. A waiting interactive checkout therefore gets the next free stream
/// before any bulk checkout, and bulk checkouts leave a share of each worker free
/// (``PoolConfiguration/interactiveReservePercent``).
public enum PoolLane: Sendable, Hashable {
    /// Single items of work. The default.
    case interactive
    /// Many items of work from one caller, which makes one checkout after another. Bulk callers take turns.
    case bulk
}
