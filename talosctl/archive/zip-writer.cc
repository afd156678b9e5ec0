#include "talosctl/archive/zip-writer.h"

#include <kj/debug.h>
#include <time.h>
#include <zlib.h>

#include "common/base/error.h"

namespace talos {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50;
constexpr uint16_t kVersion = 20;                // deflate
constexpr uint16_t kMadeBy = 3 << 8 | kVersion;  // 3: Unix, for the mode
constexpr uint16_t kNamesAreUtf8 = 1 << 11;
constexpr uint16_t kDeflated = 8;
constexpr uint32_t kMode = 0100600u << 16;                // a regular file
constexpr uint64_t kMostBytes = 0xffffffff - (64 << 20);  // leaves room for the list at the end
constexpr size_t kMostFiles = 0xffff - 1;

// A record with little-endian numbers, as the format requires.
class Record {
 public:
  Record& u16(uint16_t value) { return put(value, 2); }
  Record& u32(uint32_t value) { return put(value, 4); }
  Record& text(kj::StringPtr value) {
    bytes.addAll(value.asBytes());
    return *this;
  }
  kj::ArrayPtr<const kj::byte> get() const { return bytes; }

 private:
  kj::Vector<kj::byte> bytes;
  Record& put(uint32_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i) bytes.add(value >> (8 * i));
    return *this;
  }
};

// Converts to units of two seconds; years begin with 1980.
uint32_t dosTimeOf(kj::Date date) {
  time_t seconds = (date - kj::UNIX_EPOCH) / kj::SECONDS;
  struct tm t = {};
  gmtime_r(&seconds, &t);
  if (t.tm_year < 80) return 1 << 21 | 1 << 16;
  return uint32_t(t.tm_year - 80) << 25 | uint32_t(t.tm_mon + 1) << 21 | uint32_t(t.tm_mday) << 16 |
         uint32_t(t.tm_hour) << 11 | uint32_t(t.tm_min) << 5 | uint32_t(t.tm_sec / 2);
}

kj::Array<kj::byte> deflated(kj::ArrayPtr<const char> content) {
  z_stream stream = {};
  KJ_ASSERT(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                         Z_DEFAULT_STRATEGY) == Z_OK);
  KJ_DEFER(deflateEnd(&stream));
  auto result = kj::heapArray<kj::byte>(deflateBound(&stream, content.size()));
  stream.next_in = reinterpret_cast<kj::byte*>(const_cast<char*>(content.begin()));
  stream.avail_in = content.size();
  stream.next_out = result.begin();
  stream.avail_out = result.size();
  KJ_ASSERT(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  return kj::heapArray(result.slice(0, stream.total_out));
}

}  // namespace

ZipWriter::ZipWriter(kj::OutputStream& out, kj::Date now) : out(out), dosTime(dosTimeOf(now)) {}

void ZipWriter::write(kj::ArrayPtr<const kj::byte> bytes) {
  out.write(bytes.begin(), bytes.size());
  written += bytes.size();
}

void ZipWriter::add(kj::StringPtr name, kj::ArrayPtr<const char> content) {
  if (entries.size() >= kMostFiles || written + content.size() > kMostBytes ||
      name.size() > 0xffff) {
    fail(ErrorKind::kInvalidArgument, kj::str("no room for ", name, " in the ZIP archive"));
  }
  auto packed = deflated(content);
  Entry entry{.name = kj::str(name),
              .crc = uint32_t(crc32(0, content.asBytes().begin(), content.size())),
              .packed = uint32_t(packed.size()),
              .size = uint32_t(content.size()),
              .offset = uint32_t(written)};
  Record header;
  header.u32(kLocalHeader).u16(kVersion).u16(kNamesAreUtf8).u16(kDeflated).u32(dosTime);
  header.u32(entry.crc).u32(entry.packed).u32(entry.size);
  header.u16(name.size()).u16(0).text(name);
  write(header.get());
  write(packed);
  entries.add(kj::mv(entry));
}

void ZipWriter::finish() {
  auto begin = written;
  for (auto& entry : entries) {
    Record header;
    header.u32(kCentralHeader).u16(kMadeBy).u16(kVersion).u16(kNamesAreUtf8).u16(kDeflated);
    header.u32(dosTime).u32(entry.crc).u32(entry.packed).u32(entry.size);
    header.u16(entry.name.size()).u16(0).u16(0).u16(0).u16(0).u32(kMode).u32(entry.offset);
    header.text(entry.name);
    write(header.get());
  }
  Record end;
  end.u32(kEnd).u16(0).u16(0).u16(entries.size()).u16(entries.size());
  end.u32(written - begin).u32(begin).u16(0);
  write(end.get());
}

}  // namespace talos
