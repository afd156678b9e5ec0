#include "common/tar/tar-reader.h"

#include <string.h>

namespace talos {

namespace {

constexpr size_t kBlock = 512;
constexpr uint64_t kMaxSize = uint64_t(1) << 62;

// Returns a field's text up to its NUL.
kj::String text(const kj::byte* field, size_t size) {
  size_t n = strnlen(reinterpret_cast<const char*>(field), size);
  return kj::heapString(reinterpret_cast<const char*>(field), n);
}

// Reads octal, or base 256 if the first bit is set; nullptr if it is neither or too large.
kj::Maybe<uint64_t> number(const kj::byte* field, size_t size) {
  uint64_t value = 0;
  if (field[0] & 0x80) {
    value = field[0] & 0x7f;
    for (size_t i = 1; i < size; ++i) {
      if (value > (kMaxSize >> 8)) return nullptr;
      value = value << 8 | field[i];
    }
    return value <= kMaxSize ? kj::Maybe<uint64_t>(value) : nullptr;
  }
  size_t i = 0;
  while (i < size && field[i] == ' ') ++i;
  for (; i < size && '0' <= field[i] && field[i] <= '7'; ++i) {
    if (value > (kMaxSize >> 3)) return nullptr;
    value = value << 3 | uint64_t(field[i] - '0');
  }
  if (i < size && field[i] != ' ' && field[i] != '\0') return nullptr;
  return value;
}

bool checksumFits(kj::ArrayPtr<const kj::byte> block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) sum += 148 <= i && i < 156 ? ' ' : block[i];
  KJ_IF_MAYBE (stored, number(block.begin() + 148, 8)) {
    return *stored == sum;
  }
  return false;
}

// Parses a number of decimal digits only.
kj::Maybe<uint64_t> decimal(kj::ArrayPtr<const char> digits) {
  uint64_t value = 0;
  if (digits.size() == 0) return nullptr;
  for (char c : digits) {
    if (c < '0' || '9' < c || value > kMaxSize / 10) return nullptr;
    value = value * 10 + uint64_t(c - '0');
  }
  return value <= kMaxSize ? kj::Maybe<uint64_t>(value) : nullptr;
}

TarEntry::Kind kindOf(kj::byte type) {
  switch (type) {
    case '\0':
    case '0':
    case '7':
      return TarEntry::Kind::kFile;
    case '1':
      return TarEntry::Kind::kHardLink;
    case '2':
      return TarEntry::Kind::kSymlink;
    case '5':
      return TarEntry::Kind::kDirectory;
    default:
      return TarEntry::Kind::kOther;
  }
}

}  // namespace

kj::Maybe<kj::String> TarReader::feed(kj::ArrayPtr<const kj::byte> bytes, TarVisitor& visitor) {
  while (bytes.size() > 0 && state != State::kEnd) {
    size_t n;
    if (state == State::kHeader) {
      n = kj::min(bytes.size(), kBlock - block.size());
      block.addAll(bytes.slice(0, n));
    } else {
      n = size_t(kj::min(uint64_t(bytes.size()), left));
      if (state == State::kExtended) block.addAll(bytes.slice(0, n));
      if (state == State::kData) visitor.data(bytes.slice(0, n));
      left -= n;
    }
    position += n;
    bytes = bytes.slice(n, bytes.size());
    if (state == State::kHeader) {
      if (block.size() < kBlock) continue;
      KJ_IF_MAYBE (problem, header(visitor)) {
        return kj::mv(*problem);
      }
    } else if (left == 0) {
      if (state == State::kExtended) {
        KJ_IF_MAYBE (problem, extended()) {
          return kj::mv(*problem);
        }
      }
      endPart(visitor);
    }
  }
  return nullptr;
}

uint64_t TarReader::skipData(TarVisitor& visitor) {
  if (state != State::kData) return 0;
  auto skipped = left;
  position += left;
  left = 0;
  endPart(visitor);
  return skipped;
}

// Ends a part: continues with its padding, then with the next header.
void TarReader::endPart(TarVisitor& visitor) {
  if (inEntry && state == State::kData) {
    inEntry = false;
    visitor.end();
  }
  block.clear();
  left = padding;
  padding = 0;
  state = left > 0 ? State::kPadding : State::kHeader;
}

kj::Maybe<kj::String> TarReader::header(TarVisitor& visitor) {
  auto at = position - kBlock;
  bool zero = true;
  for (auto b : block) zero = zero && b == 0;
  if (zero) {
    block.clear();
    if (zeroSeen) state = State::kEnd;
    zeroSeen = true;
    return nullptr;
  }
  zeroSeen = false;
  if (!checksumFits(block))
    return kj::str("not a valid tar header at byte ", at, ": wrong checksum");
  const kj::byte* b = block.begin();
  auto stored = number(b + 124, 12);
  if (stored == nullptr) return kj::str("not a valid size in the tar header at byte ", at);
  uint64_t size = KJ_ASSERT_NONNULL(stored);
  kj::byte type = b[156];

  if (type == 'x' || type == 'g' || type == 'L' || type == 'K') {
    if (size > kMaxHeader || size == 0)
      return kj::str("not a valid size of the extended header at byte ", at, ": ", size);
    extendedType = char(type);
    left = size;
    padding = (kBlock - size % kBlock) % kBlock;
    block.clear();
    state = State::kExtended;
    return nullptr;
  }

  TarEntry entry = kj::mv(next);
  next = TarEntry();
  entry.kind = kindOf(type);
  if (!hasPath) {
    entry.path = text(b, 100);
    bool ustar = memcmp(b + 257, "ustar\0", 6) == 0;
    if (ustar && b[345] != 0) entry.path = kj::str(text(b + 345, 155), "/", entry.path);
  }
  if (!hasLink) entry.link = text(b + 157, 100);
  if (hasSize) size = entry.size;
  entry.mode = uint32_t(number(b + 100, 8).orDefault(0) & 07777);
  if (!hasTime) entry.modified = int64_t(number(b + 136, 12).orDefault(0));
  if (type == '0' && entry.path.endsWith("/"))
    entry.kind = TarEntry::Kind::kDirectory;  // before POSIX
  hasPath = hasLink = hasSize = hasTime = false;
  bool hasData = entry.kind == TarEntry::Kind::kFile || entry.kind == TarEntry::Kind::kOther;
  entry.size = hasData ? size : 0;

  visitor.entry(entry);
  inEntry = true;
  left = entry.size;
  padding = (kBlock - left % kBlock) % kBlock;
  state = State::kData;
  block.clear();
  if (left == 0) endPart(visitor);
  return nullptr;
}

kj::Maybe<kj::String> TarReader::extended() {
  auto content = block.asPtr().asChars();
  switch (extendedType) {
    case 'L':
      next.path = text(block.begin(), block.size());
      hasPath = true;
      return nullptr;
    case 'K':
      next.link = text(block.begin(), block.size());
      hasLink = true;
      return nullptr;
    case 'x':
      return paxRecords(content);
    default:
      return nullptr;  // global records have nothing that is used
  }
}

// Reads "<length> <key>=<value>\n", where the length counts itself.
kj::Maybe<kj::String> TarReader::paxRecords(kj::ArrayPtr<const char> rest) {
  auto broken = [&]() { return kj::str("not a valid pax record before byte ", position); };
  while (rest.size() > 0) {
    size_t blank = 0;
    while (blank < rest.size() && rest[blank] != ' ') ++blank;
    auto length = decimal(rest.slice(0, blank)).orDefault(0);
    if (length <= blank + 1 || length > rest.size() || rest[length - 1] != '\n') return broken();
    auto record = rest.slice(blank + 1, length - 1);
    rest = rest.slice(length, rest.size());
    size_t equals = 0;
    while (equals < record.size() && record[equals] != '=') ++equals;
    if (equals == record.size()) return broken();
    auto key = kj::heapString(record.slice(0, equals));
    auto value = record.slice(equals + 1, record.size());
    if (key == "path") {
      next.path = kj::heapString(value);
      hasPath = true;
    } else if (key == "linkpath") {
      next.link = kj::heapString(value);
      hasLink = true;
    } else if (key == "size") {
      auto size = decimal(value);
      if (size == nullptr) return broken();
      next.size = KJ_ASSERT_NONNULL(size);
      hasSize = true;
    } else if (key == "mtime") {
      size_t whole = 0;
      while (whole < value.size() && value[whole] != '.') ++whole;
      KJ_IF_MAYBE (seconds, decimal(value.slice(0, whole))) {
        next.modified = int64_t(*seconds);
        hasTime = true;
      }
    }
  }
  return nullptr;
}

kj::Maybe<kj::String> TarReader::finish() const {
  bool whole = state == State::kEnd ||
               (state == State::kHeader && block.size() == 0 && !hasPath && !hasLink && !hasSize);
  if (whole) return nullptr;
  return kj::str("truncated after ", position, " bytes");
}

kj::Maybe<kj::Vector<kj::String>> safePath(kj::StringPtr path) {
  if (path.startsWith("/")) return nullptr;
  kj::Vector<kj::String> parts;
  size_t start = 0;
  for (size_t i = 0; i <= path.size(); ++i) {
    if (i < path.size() && path[i] == '\0') return nullptr;
    if (i < path.size() && path[i] != '/') continue;
    auto part = kj::heapString(path.slice(start, i));
    start = i + 1;
    if (part == "..") return nullptr;
    if (part.size() > 0 && part != ".") parts.add(kj::mv(part));
  }
  if (parts.empty()) return nullptr;
  return kj::mv(parts);
}

}  // namespace talos
