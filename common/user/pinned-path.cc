#include "common/user/pinned-path.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <kj/vector.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"

namespace talos {
namespace {

constexpr unsigned kMostFollowed = 40;  // as the kernel

kj::String throughDescriptor(int fd) {
  return kj::str("/proc/self/fd/", fd);
}

kj::String textOf(int fd, const char* relative, kj::StringPtr path) {
  char text[4096];
  auto length = readlinkat(fd, relative, text, sizeof text);
  if (length < 0) KJ_FAIL_SYSCALL("readlink", errno, path);
  return kj::heapString(text, static_cast<size_t>(length));
}

kj::String pathOf(int fd) {
  auto through = throughDescriptor(fd);
  return textOf(AT_FDCWD, through.cStr(), through);
}

// Opens a path part by part. Its steps are in a stack, as a link puts its own before the others.
class Walk {
 public:
  Walk(kj::StringPtr path, bool last) : path(path), follows(last) {
    add(path);
    folder = openAt(AT_FDCWD, path.startsWith("/") ? "/" : ".", 0);
  }

  // Returns the folder of the last part, and sets `name` to the part's name.
  kj::AutoCloseFd run(kj::String& name) {
    while (!steps.empty()) {
      auto step = takeStep();
      KJ_IF_MAYBE (link, step.link) {
        check(*link);
      } else if ((isLast() && !follows) || !enter(step.part)) {
        name = kj::mv(step.part);
      }
    }
    if (name.size() == 0 || name == "..") {
      fail(ErrorKind::kInvalidArgument, kj::str(path, " does not name a file"));
    }
    return kj::mv(folder);
  }

 private:
  // A link that precedes the parts of its target in the path; they must belong to the owner of the
  // link.
  struct Link {
    kj::String path;
    uid_t owner;
  };
  struct Step {
    kj::String part;
    kj::Maybe<Link> link;
  };
  kj::StringPtr path;
  const bool follows;
  kj::Vector<Step> steps;
  kj::AutoCloseFd folder;
  kj::Maybe<uid_t> reached;  // the owner
  unsigned links = 0;

  Step takeStep() {
    auto step = kj::mv(steps.back());
    steps.removeLast();
    return step;
  }
  bool isLast() const {
    for (auto& step : steps) {
      if (step.link == nullptr) return false;
    }
    return true;
  }
  void add(kj::StringPtr target) {
    size_t end = target.size();
    for (size_t i = target.size(); i-- > 0;) {
      if (target[i] != '/' && i > 0) continue;
      auto part = kj::heapString(target.slice(target[i] == '/' ? i + 1 : i, end));
      if (part.size() > 0 && part != ".") steps.add(Step{kj::mv(part), nullptr});
      end = i;
    }
  }
  kj::AutoCloseFd openAt(int at, const char* part, int flags) {
    int raw = openat(at, part, O_PATH | O_CLOEXEC | flags);
    if (raw < 0) KJ_FAIL_SYSCALL("open", errno, path);
    return kj::AutoCloseFd(raw);
  }
  void check(const Link& link) {
    if (reached.orDefault(~link.owner) == link.owner) return;
    fail(ErrorKind::kPermissionDenied,
         kj::str(link.path, " is a link of uid ", link.owner,
                 ", which root does not follow; name the file that it leads to"));
  }
  // Returns false if the part is the last one, or would be.
  bool enter(kj::StringPtr part) {
    reached = nullptr;
    int raw = openat(folder, part.cStr(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (raw < 0) {
      if (errno == ENOENT && isLast()) return false;
      KJ_FAIL_SYSCALL("open", errno, path);
    }
    kj::AutoCloseFd found(raw);
    struct stat status;
    KJ_SYSCALL(fstat(found, &status), path);
    if (S_ISLNK(status.st_mode)) {
      followLink(part, found, status.st_uid);
      return true;
    }
    reached = status.st_uid;
    if (isLast()) return false;
    folder = kj::mv(found);  // openat() fails if it is not a folder
    return true;
  }
  void followLink(kj::StringPtr part, int link, uid_t owner) {
    if (++links > kMostFollowed) {
      fail(ErrorKind::kInvalidArgument, kj::str(path, ": too many links"));
    }
    auto target = textOf(link, "", path);
    if (owner != 0) {
      steps.add(Step{kj::String(), Link{kj::str(pathOf(folder), "/", part), owner}});
    }
    add(target);
    if (target.startsWith("/")) folder = openAt(AT_FDCWD, "/", 0);
  }
};

}  // namespace

PinnedPath::PinnedPath(kj::StringPtr path, bool last) {
  folder = Walk(path, last).run(name);
  through = kj::str(throughDescriptor(folder), "/", name);
}

kj::String PinnedPath::shown() const {
  auto above = pathOf(folder);
  return kj::str(above == "/" ? "" : above.cStr(), "/", name);
}

kj::Exception PinnedPath::readable(kj::Exception&& e) const {
  std::string text = e.getDescription().cStr();
  auto used = throughDescriptor(folder), known = pathOf(folder);
  for (size_t at; (at = text.find(used.cStr())) != std::string::npos;) {
    text.replace(at, used.size(), known.cStr());
  }
  e.setDescription(kj::heapString(text.data(), text.size()));
  return kj::mv(e);
}

}  // namespace talos
