// Walks of a file tree, one step at a time, in the order of names: what ls, du and cp stand on.
//
// Never follows a link below the root and never needs more memory than the names of the directories
// from the root down to where it is. The tree may change meanwhile: what vanished is left out, what
// cannot be read is an item with an error. Steps block (disks do): they are for the thread pool.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <sys/stat.h>

namespace talos::machined {

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
    bool leaving = false;   // a directory, for the second time: after all that is in it
  };
  // Directories come before what is in them, and once more after it, unless they could not be
  // opened or lie at maxDepth.
  kj::Maybe<Visit> next();

  kj::StringPtr root() const { return top; }

 private:
  struct Frame {
    Visit visit;
    kj::Vector<kj::String> names;  // those that are left, the next one last
  };
  kj::String top;
  unsigned maxDepth;
  bool started = false;
  kj::Vector<Frame> stack;

  kj::Maybe<Visit> enter(kj::String path, kj::String relative, unsigned depth);
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
