#include "machined/boot/boot-progress.h"

#include <errno.h>
#include <kj/debug.h>
#include <sys/mman.h>
#include <unistd.h>

namespace talos::machined {
namespace {

constexpr kj::StringPtr kHeldName = "progress"_kj;
constexpr size_t kMostBytes = 64 * 1024;
constexpr kj::StringPtr kStages[] = {"initialize"_kj, "boot"_kj, "running"_kj, "failed"_kj,
                                     "going-down"_kj};

}  // namespace

kj::String Progress::toText() const {
  kj::Vector<kj::String> lines;
  lines.add(kj::str("stage ", kStages[static_cast<size_t>(stage)]));
  if (command != 0) lines.add(kj::str("command ", command));
  for (auto& p : problems) {
    auto line = kj::str("problem ", p);
    for (char& c : line) {
      if (c == '\n') c = ' ';
    }
    lines.add(kj::mv(line));
  }
  return kj::str(kj::strArray(lines, "\n"), "\n");
}

Progress Progress::fromText(kj::ArrayPtr<const char> text) {
  Progress result;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = at;
    while (end < text.size() && text[end] != '\n') end++;
    auto line = kj::heapString(text.slice(at, end));
    at = end + 1;
    auto blank = KJ_UNWRAP_OR(line.findFirst(' '), continue);
    auto key = kj::heapString(line.slice(0, blank));
    auto value = line.slice(blank + 1);
    if (key == "stage") {
      for (size_t i = 0; i < kj::size(kStages); i++) {
        if (value == kStages[i]) result.stage = static_cast<Stage>(i);
      }
    } else if (key == "command") {
      result.command = value.tryParseAs<unsigned>().orDefault(0);
    } else if (key == "problem") {
      result.problems.add(kj::str(value));
    }
  }
  if (result.stage == Stage::kGoingDown && result.command == 0) result.stage = Stage::kRunning;
  return result;
}

Progress takeProgress(Process1& process1) {
  KJ_IF_MAYBE (fd, process1.takeHeld(kHeldName)) {
    auto bytes = kj::heapArray<char>(kMostBytes);
    ssize_t n = pread(fd->get(), bytes.begin(), bytes.size(), 0);
    if (n > 0) return Progress::fromText(bytes.slice(0, n));
  }
  return {};
}

kj::Promise<void> holdProgress(Process1& process1, const Progress& progress) {
  int fd;
  KJ_SYSCALL(fd = memfd_create("progress", MFD_CLOEXEC));
  kj::AutoCloseFd file(fd);
  auto text = progress.toText();
  kj::FdOutputStream(fd).write(text.begin(), kj::min(text.size(), kMostBytes));
  auto held = process1.hold(kHeldName, file.get());
  return held.attach(kj::mv(file));
}

}  // namespace talos::machined
