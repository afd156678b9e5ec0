@0xf63fccee3442dc61;
# Files of a node, read-only.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
$Cxx.allowCancellation;
using import "annotations.capnp".allow;
using import "annotations.capnp".audit;
using import "stream.capnp".ByteSink;

interface Files {
  list @0 (root :Text, recurse :Bool, depth :UInt32, types :List(FileType), sink :FileSink) -> () $allow("os:reader");
  # Lists files below `root`; empty: "/". Without `recurse`, one level; with it, `depth` levels (0: no limit). The first
  # item is the root itself, with relative name ".". Errors of single files are inside items; a missing root fails the
  # call: NotFound. The entries of a directory are sorted by name; a directory with thousands of entries comes in parts,
  # each of which is sorted.

  diskUsage @1 (paths :List(Text), depth :UInt32, all :Bool, threshold :Int64, sink :UsageSink) -> () $allow("os:reader");
  # Sends the sizes of files and directories below each path. Directories come after their children, `depth` levels of
  # them, of which a path itself is the first (0: all); files only with `all`. threshold > 0 leaves out smaller items,
  # < 0 larger ones. Every path is done.

  read @2 (path :Text, sink :ByteSink) -> () $audit;
  # Sends a whole regular file. NotFound; InvalidArgument for a file that is not regular.

  copy @3 (path :Text, sink :ByteSink) -> (unreadable :List(Text)) $audit;
  # Sends a gzip'd tar (POSIX ustar with pax headers) of the tree below an absolute path, without the root unless it is
  # a file. Files that cannot be read are left out and named in the answer. NotFound; InvalidArgument for a path that is
  # not absolute.
}

enum FileType { regular @0; directory @1; symlink @2; }

struct FileInfo {
  name @0 :Text; size @1 :UInt64; mode @2 :UInt32; modified @3 :Int64;   # st_mode; seconds since 1970
  error @4 :Text; link @5 :Text; relativeName @6 :Text;
  uid @7 :UInt32; gid @8 :UInt32;
}
interface FileSink { files @0 (files :List(FileInfo)) -> stream; }

struct Usage { name @0 :Text; size @1 :UInt64; error @2 :Text; relativeName @3 :Text; }
interface UsageSink { usages @0 (usages :List(Usage)) -> stream; }
