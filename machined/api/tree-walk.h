// Walks of a file tree, one step at a time: what ls, du and cp stand on.
//
// The entries of a directory come in the order of their names. A pod may fill a directory with
// millions of them: one with more names than fit into kMostNameBytes comes in parts, each of which
// is sorted, and an entry that is made or removed meanwhile may be left out. So memory is bounded,
// whatever the tree. Never follows a link below the root. The tree may change meanwhile: what
// vanished is left out, what cannot be read is an item with an error. Steps block (disks do): they
// are for the thread pool.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <sys/stat.h>

namespace talos::machined {

// The most that the names of one walk may take, with what an allocator adds: some 3 000 usual
// names. A directory below one that takes them all has at least the second number.
constexpr size_t kMostNameBytes = 256u << 10, kLeastNameBytes = 512;

class TreeWalk {
 public:
  // `root`: empty is "/", a relative one starts there; links in it are resolved. NotFound, or
  // PermissionDenied, when there is none. `maxDepth`: how many levels below the root; 0 is no
  // limit.
  TreeWalk(kj::StringPtr root, unsigned maxDepth);
  ~TreeWalk() noexcept(false);

  struct Visit {
    kj::String path = {};
    kj::String relative = {};  // "." for the root
    unsigned depth = 0;        // of the root: 0
    struct stat st{};
    kj::String error = {};  // why it cannot be read; `st` may be empty then
    bool leaving = false;   // a directory, for the second time: after all that is in it. With an
                            // error: only a part of its entries could be read
  };
  // Directories come before what is in them, and once more after it, unless they could not be
  // opened or lie at maxDepth.
  kj::Maybe<Visit> next();

  kj::StringPtr root() const { return top; }

 private:
  // A directory that is open in the walk. Its path is a beginning of the current one.
  struct Frame {
    size_t pathSize = 0;
    struct stat st{};
    kj::Vector<kj::String> names = {};  // those that are left of the part, the next one last
    size_t nameBytes = 0;               // of the part
    long position = 0;                  // of the next part
    bool more = true;                   // there may be another part
  };
  kj::String top;
  unsigned maxDepth;
  bool started = false;
  kj::Vector<char> path;  // of the newest frame
  kj::Vector<Frame> stack;
  size_t nameBytes = 0;  // of all frames

  kj::Maybe<Visit> enter(kj::StringPtr name);
  kj::Maybe<Visit> leave(int failure);
  int nextPart(kj::StringPtr directory, Frame& frame);
  Visit visitOf(kj::String full, unsigned depth) const;
};

// Disk usage: directories after what is in them. Sizes are those that files say they have
// (st_size); a file with two names counts twice; /proc/kcore, which claims all address space,
// counts 0.
struct UsageOptions {
  unsigned depth = 0;     // report so many levels, of which the root is the first; 0: all
  bool all = false;       // report files too
  int64_t threshold = 0;  // > 0: leave out smaller items; < 0: larger ones than its absolute value
};
struct UsageItem {
  kj::String path, relative;
  uint64_t size = 0;
  kj::String error;
};

class UsageWalk {
 public:
  UsageWalk(kj::StringPtr root, UsageOptions options);

  // One step. False at the end; may have no item.
  bool step(kj::Maybe<UsageItem>& item);

 private:
  TreeWalk walk;
  UsageOptions options;
  kj::Vector<uint64_t> sums;  // of the directories that are open

  bool wanted(const TreeWalk::Visit& visit, uint64_t size) const;
};

// Bytes that a file's size counts as: /proc/kcore's is all address space, not content.
uint64_t countedSize(kj::StringPtr path, const struct stat& st);

// The text of an errno, for an item.
kj::String errorText(int number);

}  // namespace talos::machined
