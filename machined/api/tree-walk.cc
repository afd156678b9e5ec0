#include "machined/api/tree-walk.h"

#include <dirent.h>
#include <errno.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "common/base/error.h"

namespace talos::machined {
namespace {

kj::String resolve(kj::StringPtr root) {
  auto path = root.startsWith("/") ? kj::str(root) : kj::str('/', root);
  char* resolved = realpath(path.cStr(), nullptr);
  if (resolved == nullptr) {
    auto kind = errno == EACCES                       ? ErrorKind::kPermissionDenied
                : errno == ENOENT || errno == ENOTDIR ? ErrorKind::kNotFound
                                                      : ErrorKind::kInvalidArgument;
    fail(kind, kj::str(path, ": ", strerror(errno)));
  }
  KJ_DEFER(free(resolved));
  return kj::str(resolved);
}

// 0, or why the names could not be read. They come in descending order, to be taken off the end.
int namesIn(kj::StringPtr path, kj::Vector<kj::String>& names) {
  DIR* directory = opendir(path.cStr());
  if (directory == nullptr) return errno;
  KJ_DEFER(closedir(directory));
  errno = 0;
  while (auto* entry = readdir(directory)) {
    kj::StringPtr name = entry->d_name;
    if (name != "." && name != "..") names.add(kj::str(name));
    errno = 0;
  }
  int failure = errno;
  std::sort(names.begin(), names.end(), [](auto& a, auto& b) { return b < a; });
  return failure;
}

bool isGone(int number) {
  return number == ENOENT || number == ESRCH;  // a file; a process's folder
}

TreeWalk::Visit copyOf(const TreeWalk::Visit& visit) {
  return {.path = kj::str(visit.path),
          .relative = kj::str(visit.relative),
          .depth = visit.depth,
          .st = visit.st};
}

}  // namespace

kj::String errorText(int number) {
  return kj::str(strerror(number));
}

uint64_t countedSize(kj::StringPtr path, const struct stat& st) {
  return path == "/proc/kcore" ? 0 : st.st_size;
}

TreeWalk::TreeWalk(kj::StringPtr root, unsigned maxDepth)
    : top(resolve(root)), maxDepth(maxDepth) {}

TreeWalk::~TreeWalk() noexcept(false) {}

kj::Maybe<TreeWalk::Visit> TreeWalk::enter(kj::String path, kj::String relative, unsigned depth) {
  Visit visit{.path = kj::mv(path), .relative = kj::mv(relative), .depth = depth};
  if (lstat(visit.path.cStr(), &visit.st) < 0) {
    if (isGone(errno)) return nullptr;
    visit.error = errorText(errno);
    return kj::mv(visit);
  }
  if (!S_ISDIR(visit.st.st_mode) || (maxDepth > 0 && depth >= maxDepth)) return kj::mv(visit);
  Frame frame;
  int failure = namesIn(visit.path, frame.names);
  if (isGone(failure)) return nullptr;
  if (failure != 0) {
    visit.error = errorText(failure);
    return kj::mv(visit);
  }
  frame.visit = copyOf(visit);
  stack.add(kj::mv(frame));
  return kj::mv(visit);
}

kj::Maybe<TreeWalk::Visit> TreeWalk::next() {
  if (!started) {
    started = true;
    return enter(kj::str(top), kj::str("."), 0);
  }
  while (!stack.empty()) {
    auto& frame = stack.back();
    if (frame.names.empty()) {
      auto visit = kj::mv(frame.visit);
      stack.removeLast();
      visit.leaving = true;
      return kj::mv(visit);
    }
    auto name = kj::mv(frame.names.back());
    frame.names.removeLast();
    auto path = frame.visit.path == "/" ? kj::str('/', name) : kj::str(frame.visit.path, '/', name);
    auto relative =
        frame.visit.depth == 0 ? kj::mv(name) : kj::str(frame.visit.relative, '/', name);
    auto visit = enter(kj::mv(path), kj::mv(relative), frame.visit.depth + 1);
    if (visit != nullptr) return visit;
  }
  return nullptr;
}

UsageWalk::UsageWalk(kj::StringPtr root, UsageOptions options) : walk(root, 0), options(options) {}

bool UsageWalk::wanted(const TreeWalk::Visit& visit, uint64_t size) const {
  if (options.depth > 0 && visit.depth >= options.depth) return false;
  if (visit.error.size() > 0) return true;
  if (!S_ISDIR(visit.st.st_mode) && !options.all && visit.depth > 0) return false;
  if (options.threshold > 0) return size >= static_cast<uint64_t>(options.threshold);
  if (options.threshold < 0) return size <= 0 - static_cast<uint64_t>(options.threshold);
  return true;
}

bool UsageWalk::step(kj::Maybe<UsageItem>& item) {
  auto next = walk.next();
  KJ_IF_MAYBE (visit, next) {
    uint64_t size = countedSize(visit->path, visit->st);
    bool directory = S_ISDIR(visit->st.st_mode) && visit->error.size() == 0;
    if (directory && !visit->leaving) {
      sums.add(size);
      return true;
    }
    if (directory) {
      size = sums.back();
      sums.removeLast();
    }
    if (!sums.empty()) sums.back() += size;
    if (wanted(*visit, size)) {
      item = UsageItem{.path = kj::mv(visit->path),
                       .relative = kj::mv(visit->relative),
                       .size = size,
                       .error = kj::mv(visit->error)};
    }
    return true;
  }
  return false;
}

}  // namespace talos::machined
