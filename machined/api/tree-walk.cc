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

// Returns the memory of a name: a string and the allocator's overhead.
size_t costOf(kj::StringPtr name) {
  return sizeof(kj::String) + kj::max(name.size() + 1, size_t{24}) + sizeof(void*);
}

bool isGone(int number) {
  return number == ENOENT || number == ESRCH;  // ENOENT for a file, ESRCH for a process's folder
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

// Reads the next names of a directory, as many as there is room for, in descending order, because
// they are taken off the end. Returns 0, or the errno.
int TreeWalk::nextPart(kj::StringPtr directory, Frame& frame) {
  nameBytes -= frame.nameBytes;
  frame.nameBytes = 0;
  frame.names = {};
  frame.more = false;
  DIR* open = opendir(directory.cStr());
  if (open == nullptr) return errno;
  KJ_DEFER(closedir(open));
  if (frame.position != 0) seekdir(open, frame.position);
  auto room = kj::max(kMostNameBytes - kj::min(nameBytes, kMostNameBytes), kLeastNameBytes);
  errno = 0;
  while (auto* entry = readdir(open)) {
    kj::StringPtr name = entry->d_name;
    if (name != "." && name != "..") {
      frame.nameBytes += costOf(name);
      frame.names.add(kj::str(name));
    }
    if (frame.nameBytes >= room) {
      frame.position = telldir(open);
      frame.more = true;
      break;
    }
    errno = 0;
  }
  int failure = frame.more ? 0 : errno;
  std::sort(frame.names.begin(), frame.names.end(), [](auto& a, auto& b) { return b < a; });
  nameBytes += frame.nameBytes;
  return failure;
}

TreeWalk::Visit TreeWalk::visitOf(kj::String full, unsigned depth) const {
  size_t above = top == "/" ? 1 : top.size() + 1;
  auto relative = depth == 0 ? kj::str(".") : kj::str(full.slice(above));
  return {.path = kj::mv(full), .relative = kj::mv(relative), .depth = depth};
}

// Visits an entry of the newest frame, or, without a frame, the root.
kj::Maybe<TreeWalk::Visit> TreeWalk::enter(kj::StringPtr name) {
  auto depth = static_cast<unsigned>(stack.size());
  auto full = depth == 0 ? kj::str(top) : kj::str(path, path.back() == '/' ? "" : "/", name);
  auto visit = visitOf(kj::mv(full), depth);
  if (lstat(visit.path.cStr(), &visit.st) < 0) {
    if (isGone(errno)) return nullptr;
    visit.error = errorText(errno);
    return kj::mv(visit);
  }
  if (!S_ISDIR(visit.st.st_mode) || (maxDepth > 0 && depth >= maxDepth)) return kj::mv(visit);
  Frame frame{.pathSize = visit.path.size(), .st = visit.st};
  int failure = nextPart(visit.path, frame);
  if (isGone(failure)) return nullptr;
  if (failure != 0) {
    nameBytes -= frame.nameBytes;
    visit.error = errorText(failure);
    return kj::mv(visit);
  }
  path.clear();
  path.addAll(visit.path);
  stack.add(kj::mv(frame));
  return kj::mv(visit);
}

kj::Maybe<TreeWalk::Visit> TreeWalk::leave(int failure) {
  auto& frame = stack.back();
  auto visit = visitOf(kj::heapString(path), static_cast<unsigned>(stack.size() - 1));
  visit.st = frame.st;
  visit.leaving = true;
  if (failure != 0 && !isGone(failure)) visit.error = errorText(failure);
  nameBytes -= frame.nameBytes;
  stack.removeLast();
  if (!stack.empty()) path.resize(stack.back().pathSize);
  return kj::mv(visit);
}

kj::Maybe<TreeWalk::Visit> TreeWalk::next() {
  if (!started) {
    started = true;
    return enter("");
  }
  while (!stack.empty()) {
    auto& frame = stack.back();
    if (frame.names.empty() && frame.more) {
      int failure = nextPart(kj::heapString(path), frame);
      if (failure != 0) return leave(failure);
    }
    if (frame.names.empty()) return leave(0);
    auto name = kj::mv(frame.names.back());
    frame.names.removeLast();
    auto visit = enter(name);
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
    bool directory = S_ISDIR(visit->st.st_mode) && (visit->leaving || visit->error.size() == 0);
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
