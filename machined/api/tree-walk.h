// Walks of a file tree, one step at a time: the basis of ls, du and cp.
//
// The entries of a directory come in the order of their names. A pod may fill a directory with
// millions of entries: a directory with more names than fit into kMostNameBytes comes in parts,
// each of which is sorted, and an entry that is made or removed meanwhile may be left out. So
// memory is bounded, whatever the tree. The walk never follows a link below the root. The tree may
// change meanwhile: a vanished entry is left out, an unreadable entry is an item with an error.
// Steps block (disks do): they are for the thread pool.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <sys/stat.h>

namespace talos::machined {

// The limit of all names of one walk, including the allocator's overhead: some 3 000 usual names. A
// directory below one that uses up the limit still gets the second number.
constexpr size_t kMostNameBytes = 256u << 10, kLeastNameBytes = 512;

class TreeWalk {
 public:
  // `root`: empty is "/", a relative path starts there; links in it are resolved. Throws NotFound,
  // or PermissionDenied, if it does not exist or cannot be reached. `maxDepth` is the number of
  // levels below the root; 0 is no limit.
  TreeWalk(kj::StringPtr root, unsigned maxDepth);
  ~TreeWalk() noexcept(false);

  struct Visit {
    kj::String path = {};
    kj::String relative = {};  // "." for the root
    unsigned depth = 0;        // 0 for the root
    struct stat st{};
    kj::String error = {};  // the reason why it cannot be read; `st` may be empty then
    bool leaving = false;   // a directory's second visit, after its entries; with an error: only a
                            // part could be read
  };
  // Visits directories before their entries, and again after them, unless they could not be opened
  // or are at maxDepth.
  kj::Maybe<Visit> next();

  kj::StringPtr root() const { return top; }

 private:
  // A directory that is open in the walk. Its path is a prefix of the current path.
  struct Frame {
    size_t pathSize = 0;
    struct stat st{};
    kj::Vector<kj::String> names = {};  // remaining names of the part, the next one last
    size_t nameBytes = 0;               // size of the part
    long position = 0;                  // start of the next part
    bool more = true;                   // there may be another part
  };
  kj::String top;
  unsigned maxDepth;
  bool started = false;
  kj::Vector<char> path;  // path of the newest frame
  kj::Vector<Frame> stack;
  size_t nameBytes = 0;  // size of all frames

  kj::Maybe<Visit> enter(kj::StringPtr name);
  kj::Maybe<Visit> leave(int failure);
  int nextPart(kj::StringPtr directory, Frame& frame);
  Visit visitOf(kj::String full, unsigned depth) const;
};

// Disk usage: directories after their entries. Sizes are those that files report (st_size); a file
// with two names counts twice; /proc/kcore, which reports the whole address space, counts 0.
struct UsageOptions {
  unsigned depth = 0;     // number of levels to report, the root being the first; 0: all
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

  // Makes one step. Returns false at the end; may have no item.
  bool step(kj::Maybe<UsageItem>& item);

 private:
  TreeWalk walk;
  UsageOptions options;
  kj::Vector<uint64_t> sums;  // sums of the open directories

  bool wanted(const TreeWalk::Visit& visit, uint64_t size) const;
};

// Returns the bytes for which a file counts: the size of /proc/kcore is the whole address space,
// not content.
uint64_t countedSize(kj::StringPtr path, const struct stat& st);

// Returns the text of an errno, for an item.
kj::String errorText(int number);

}  // namespace talos::machined
