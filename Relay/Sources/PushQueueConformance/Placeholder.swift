import PushQueue
