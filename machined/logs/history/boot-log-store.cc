#include "machined/logs/history/boot-log-store.h"

#include <ctype.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/append-only-frames.h"
#include "common/base/date.h"
#include "common/base/file.h"
#include "common/base/folder.h"
#include "common/base/lines.h"

namespace talos::machined {
namespace {

constexpr size_t kMostName = 64;
constexpr size_t kMostValue = 1024;
constexpr unsigned kDigits = 8;
// Limit for a boot's folder, whatever files it contains.
constexpr size_t kMostEntries = 256;
constexpr size_t kLargestFile = kMostOfLargeSource;
constexpr kj::StringPtr kNumber = "number"_kj, kBegan = "began"_kj, kVersion = "version"_kj,
                        kReason = "reason"_kj;

bool isName(kj::StringPtr name) {
  if (name.size() == 0 || name.size() > kMostName || name.startsWith(".")) return false;
  for (char c : name) {
    if (isalnum(c) == 0 && c != '-' && c != '_') return false;
  }
  return true;
}

kj::Vector<kj::String> entriesOf(kj::StringPtr folder) {
  return namesIn(folder, kMostEntries);
}

// Returns "source.00000001".
kj::String fileName(kj::StringPtr source, unsigned number) {
  char digits[16];
  snprintf(digits, sizeof digits, "%08u", number);
  return kj::str(source, ".", digits);
}

kj::String oneLine(kj::StringPtr value) {
  auto line = kj::heapString(value.slice(0, kj::min(value.size(), kMostValue)));
  for (auto& c : line) {
    if (c == '\n') c = ' ';
  }
  return line;
}

kj::String readWhole(kj::StringPtr path) {
  return tryReadFile(path, kLargestFile).orDefault(kj::String());
}

}  // namespace

BootStore::BootStore(kj::StringPtr root, kj::StringPtr large)
    : root(kj::str(root)), large(kj::str(large)) {}

kj::String BootStore::folder(kj::StringPtr bootId) const {
  return kj::str(root, "/", bootId);
}

kj::Vector<unsigned> BootStore::numbers(kj::StringPtr bootId, kj::StringPtr source) const {
  kj::Vector<unsigned> found;
  for (auto& name : entriesOf(folder(bootId))) {
    if (name.size() != source.size() + 1 + kDigits || !name.startsWith(source) ||
        name[source.size()] != '.') {
      continue;
    }
    unsigned number = 0;
    bool digits = true;
    for (char c : name.slice(source.size() + 1)) {
      digits = digits && c >= '0' && c <= '9';
      number = number * 10 + static_cast<unsigned>(c - '0');
    }
    if (digits) found.add(number);
  }
  return found;  // sorted by name
}

// --- writing ---

void BootStore::startFile(Writing& writing, kj::StringPtr bootId, kj::StringPtr source,
                          unsigned number) const {
  auto path = kj::str(folder(bootId), "/", fileName(source, number));
  int fd;
  KJ_SYSCALL(fd = open(path.cStr(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600),
             path);
  writing.file = kj::AutoCloseFd(fd);
  writing.number = number;
  auto bytes = readWhole(path);
  writing.size =
      readFrames(bytes.asBytes(), [&](Piece piece) { writing.position = piece.position; });
  // Bytes that a power cut left after the last whole frame would hide the next frame.
  if (writing.size < bytes.size()) {
    KJ_SYSCALL(ftruncate(fd, static_cast<off_t>(writing.size)), path);
  }
}

BootStore::Writing BootStore::openNewest(kj::StringPtr bootId, kj::StringPtr source) const {
  Writing writing;
  auto existing = numbers(bootId, source);
  startFile(writing, bootId, source, existing.empty() ? 1 : existing.back());
  if (writing.size == 0 && existing.size() > 1) {
    // The file was started and not written to: the position is in the previous file.
    auto before =
        readWhole(kj::str(folder(bootId), "/", fileName(source, existing[existing.size() - 2])));
    readFrames(before.asBytes(), [&](Piece piece) { writing.position = piece.position; });
  }
  return writing;
}

kj::Maybe<BootStore::Writing&> BootStore::writing(kj::StringPtr source) {
  KJ_IF_MAYBE (found, files.find(source)) return *found;
  if (!isName(source) || current.size() == 0 || files.size() >= kMostSources) return nullptr;
  return files.insert(kj::str(source), openNewest(current, source)).value;
}

void BootStore::appendTo(Writing& writing, kj::StringPtr bootId, kj::StringPtr source,
                         uint64_t position, kj::ArrayPtr<const char> piece) const {
  auto half = (source == large || source == kEventsSource ? kMostOfLargeSource : kMostOfSource) / 2;
  auto frame = frameOf(position, piece);
  if (writing.size + frame.size() > half) {
    KJ_SYSCALL(fdatasync(writing.file));
    startFile(writing, bootId, source, writing.number + 1);
    for (auto number : numbers(bootId, source)) {
      if (number + 1 >= writing.number) break;
      auto path = kj::str(folder(bootId), "/", fileName(source, number));
      KJ_SYSCALL(unlink(path.cStr()), path);
    }
    syncFolder(folder(bootId));
  }
  // All or nothing: half a frame would hide the following frames.
  KJ_ON_SCOPE_FAILURE((void)!ftruncate(writing.file, static_cast<off_t>(writing.size)));
  for (auto rest = frame.asPtr(); rest.size() > 0;) {
    ssize_t n;
    KJ_SYSCALL(n = write(writing.file, rest.begin(), rest.size()), source);
    rest = rest.slice(n, rest.size());
  }
  writing.size += frame.size();
  writing.position = position;
  writing.dirty = true;
}

void BootStore::begin(kj::StringPtr bootId) {
  KJ_REQUIRE(isName(bootId), bootId);
  makeDirectories(root, 0700);
  uint64_t number = 1;
  bool counted = false;  // false if only its folder was made
  for (auto& boot : list()) {
    if (boot.id == bootId) {
      counted = boot.number > 0;
    } else {
      number = kj::max(number, boot.number + 1);
    }
  }
  makeDirectories(folder(bootId), 0700);
  current = kj::str(bootId);
  if (!counted) {
    note(kNumber, kj::str(number));
    sync();
    syncFolder(folder(bootId));
    syncFolder(root);
  }
  removeBeyondBounds();
}

uint64_t BootStore::position(kj::StringPtr source) {
  KJ_IF_MAYBE (w, writing(source)) return w->position;
  return 0;
}

void BootStore::append(kj::StringPtr source, uint64_t position, kj::ArrayPtr<const char> piece) {
  KJ_IF_MAYBE (w, writing(source)) {
    // Half a frame would hide the following frames: when the file is opened again, it ends with its
    // last whole frame.
    KJ_ON_SCOPE_FAILURE(files.erase(source));
    appendTo(*w, current, source, position, piece);
  }
}

void BootStore::note(kj::StringPtr key, kj::StringPtr value) {
  auto line = kj::str(key, "=", oneLine(value), "\n");
  append(kBootSource, position(kBootSource) + line.size(), line);
}

void BootStore::sync() {
  KJ_ON_SCOPE_FAILURE(files.clear());  // the state of these files is not known
  for (auto& entry : files) {
    if (!entry.value.dirty) continue;
    KJ_SYSCALL(fdatasync(entry.value.file), entry.key);
    entry.value.dirty = false;
  }
}

void BootStore::appendTo(kj::StringPtr bootId, kj::StringPtr source,
                         kj::ArrayPtr<const char> text) {
  auto writing = openNewest(bootId, source);
  while (text.size() > 0) {
    auto piece = text.slice(0, kj::min(text.size(), kMostPiece));
    appendTo(writing, bootId, source, writing.position + piece.size(), piece);
    text = text.slice(piece.size(), text.size());
  }
  KJ_SYSCALL(fsync(writing.file));
  syncFolder(folder(bootId));
}

void BootStore::noteOf(kj::StringPtr bootId, kj::StringPtr key, kj::StringPtr value) {
  appendTo(bootId, kBootSource, kj::str(key, "=", oneLine(value), "\n"));
}

void BootStore::removeBeyondBounds() {
  auto boots = list();
  kj::Vector<uint64_t> sizes;
  uint64_t all = 0;
  for (auto& boot : boots) {
    uint64_t size = 0;
    for (auto& name : entriesOf(folder(boot.id))) {
      struct stat info;
      auto path = kj::str(folder(boot.id), "/", name);
      if (lstat(path.cStr(), &info) == 0) size += static_cast<uint64_t>(info.st_size);
    }
    sizes.add(size);
    all += size;
  }
  // Bytes that this boot may still write count as written.
  constexpr uint64_t kMostOfBoot = kMostOfAll / kMostBoots;
  size_t left = boots.size();
  for (size_t i = 0; i < boots.size(); ++i) {
    if (left <= kMostBoots && all <= kMostOfAll - kMostOfBoot) break;
    if (boots[i].id == current) continue;
    removeTree(folder(boots[i].id));
    all -= sizes[i];
    --left;
  }
}

// --- reading ---

kj::Vector<BootSummary> BootStore::list() const {
  kj::Vector<BootSummary> boots;
  for (auto& name : entriesOf(root)) {
    struct stat info;
    if (isName(name) && lstat(folder(name).cStr(), &info) == 0 && S_ISDIR(info.st_mode)) {
      boots.add(summaryOf(name));
    }
  }
  std::sort(boots.begin(), boots.end(),
            [](auto& a, auto& b) { return std::tie(a.number, a.id) < std::tie(b.number, b.id); });
  return boots;
}

BootSummary BootStore::summaryOf(kj::StringPtr bootId) const {
  BootSummary result;
  result.id = kj::str(bootId);
  KJ_IF_MAYBE (text, read(bootId, kBootSource)) {
    for (auto line : Lines(*text)) {
      auto whole = kj::heapString(line);
      size_t equals = whole.findFirst('=').orDefault(whole.size());
      auto key = kj::heapString(whole.slice(0, equals));
      auto value = kj::str(whole.slice(kj::min(equals + 1, whole.size())));
      if (key == kNumber) result.number = value.tryParseAs<uint64_t>().orDefault(0);
      if (key == kBegan) result.began = kj::mv(value);
      if (key == kVersion) result.version = kj::mv(value);
      if (key == kReason) result.reason = kj::mv(value);
    }
  }
  time_t last = 0;
  for (auto& name : entriesOf(folder(bootId))) {
    struct stat info;
    if (name.startsWith(kKernelCrashSource) || name.startsWith(kBootSource)) continue;
    auto path = kj::str(folder(bootId), "/", name);
    if (lstat(path.cStr(), &info) == 0) last = std::max(last, info.st_mtime);
  }
  if (last > 0) result.ended = dateText(kj::UNIX_EPOCH + last * kj::SECONDS);
  return result;
}

kj::Vector<kj::String> BootStore::sources(kj::StringPtr bootId) const {
  kj::Vector<kj::String> names;
  for (auto& file : entriesOf(folder(bootId))) {
    if (file.size() <= kDigits + 1) continue;
    auto name = kj::heapString(file.slice(0, file.size() - kDigits - 1));
    if (!isName(name) || name == kBootSource || name == kEventsSource) continue;
    if (names.empty() || names.back() != name) names.add(kj::mv(name));
  }
  return names;
}

kj::Maybe<kj::Vector<char>> BootStore::read(kj::StringPtr bootId, kj::StringPtr source) const {
  if (!isName(bootId) || !isName(source)) return nullptr;
  auto existing = numbers(bootId, source);
  if (existing.empty()) return nullptr;
  kj::Vector<char> text;
  for (auto number : existing) {
    auto bytes = readWhole(kj::str(folder(bootId), "/", fileName(source, number)));
    readFrames(bytes.asBytes(), [&](Piece piece) { text.addAll(piece.bytes); });
  }
  return kj::mv(text);
}

}  // namespace talos::machined
