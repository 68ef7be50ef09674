import PushQueue
import GRDB
