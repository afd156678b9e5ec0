@0x86fb1e8eb13f9389;
# Sinks that a caller passes in to receive a stream of data. Every method that carries data is `-> stream`: the sender
# waits for the window of Cap'n Proto's flow control, so a slow reader makes the sender slow, and never makes the sender
# grow. A sender ends a stream by returning from the call that got the sink.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;

interface ByteSink {
  write @0 (bytes :Data) -> stream;
  # At most 64 KiB each.
}

interface ByteSource {
  # A file that the caller serves and the callee reads at its own pace.
  read @0 (offset :UInt64, size :UInt32) -> (bytes :Data);
  # At most 64 KiB; fewer bytes than requested only at the end.
}

interface LogSink {
  write @0 (bytes :Data, next :UInt64) -> stream;
  # Whole lines, each ended by '\n'. `next` is the log's position after them: pass it as `from` to continue after a lost
  # connection without a gap or a repeat.
  missed @1 (bytes :UInt64) -> stream;
  # This reader was slower than the log: `bytes` bytes were overwritten unread.
}

struct LogSince {
  # The lines of a log from a time on. The time of a line is when it arrived, by a clock of the node that is never set,
  # so a time of day is right for lines from before the clock was set, too.
  union {
    always @0 :Void;
    age @1 :UInt64;      # no older than this, ms
    time @2 :Int64;      # ns since 1970
  }
}
