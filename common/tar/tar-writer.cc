#include "common/tar/tar-writer.h"

#include <kj/debug.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

namespace talos {
namespace {

// POSIX ustar header block, IEEE Std 1003.1 "ustar Interchange Format".
struct Header {
  char name[100];
  char mode[8], uid[8], gid[8];
  char size[12], mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6], version[2];
  char owner[32], group[32];
  char major[8], minor[8];
  char prefix[155];
  char unused[12];
};
static_assert(sizeof(Header) == kTarBlock);

// Fits `width` - 1 octal digits.
bool fitsOctal(uint64_t value, size_t width) {
  return value < uint64_t{1} << (3 * (width - 1));
}

template <size_t width>
void setOctal(char (&field)[width], uint64_t value) {
  if (!fitsOctal(value, width)) value = 0;  // the pax header has the value
  char text[32];
  snprintf(text, sizeof text, "%0*llo", static_cast<int>(width - 1),
           static_cast<unsigned long long>(value));
  memcpy(field, text, width);
}

template <size_t width>
void setText(char (&field)[width], kj::StringPtr text) {
  memcpy(field, text.begin(), kj::min(width, text.size()));
}

bool fitsText(kj::StringPtr text, size_t width) {
  if (text.size() > width) return false;
  for (char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

void append(kj::Vector<kj::byte>& out, const Header& header) {
  auto* bytes = reinterpret_cast<const kj::byte*>(&header);
  out.addAll(bytes, bytes + sizeof header);
}

void seal(Header& header) {
  memcpy(header.magic, "ustar", 6);
  memcpy(header.version, "00", 2);
  memset(header.checksum, ' ', sizeof header.checksum);
  unsigned sum = 0;
  for (auto* byte = reinterpret_cast<unsigned char*>(&header);
       byte != reinterpret_cast<unsigned char*>(&header + 1); ++byte) {
    sum += *byte;
  }
  snprintf(header.checksum, 8, "%06o",
           sum);  // six digits, NUL, and the existing blank
}

// Returns a pax record: "<length> <key>=<value>\n", where the length counts itself.
kj::String paxRecord(kj::StringPtr key, kj::StringPtr value) {
  size_t rest = key.size() + value.size() + 3;
  size_t length = rest + 1;
  while (kj::str(length).size() + rest > length) ++length;
  return kj::str(length, ' ', key, '=', value, '\n');
}

kj::Vector<kj::String> paxRecords(const TarHeader& entry, kj::StringPtr name) {
  kj::Vector<kj::String> records;
  if (!fitsText(name, 100)) records.add(paxRecord("path", name));
  if (!fitsText(entry.link, 100)) records.add(paxRecord("linkpath", entry.link));
  if (!fitsOctal(entry.size, 12)) records.add(paxRecord("size", kj::str(entry.size)));
  if (!fitsOctal(entry.uid, 8)) records.add(paxRecord("uid", kj::str(entry.uid)));
  if (!fitsOctal(entry.gid, 8)) records.add(paxRecord("gid", kj::str(entry.gid)));
  if (entry.modified < 0 || !fitsOctal(entry.modified, 12)) {
    records.add(paxRecord("mtime", kj::str(entry.modified)));
  }
  return records;
}

void appendPax(kj::Vector<kj::byte>& out, kj::ArrayPtr<const kj::String> records) {
  auto content = kj::strArray(records, "");
  Header header{};
  setText(header.name, "pax");
  setOctal(header.mode, 0644);
  setOctal(header.uid, 0);
  setOctal(header.gid, 0);
  setOctal(header.size, content.size());
  setOctal(header.mtime, 0);
  header.type = 'x';
  seal(header);
  append(out, header);
  out.addAll(content.asBytes());
  for (size_t i = tarPadding(content.size()); i > 0; --i) out.add(0);
}

}  // namespace

void appendTarHeader(kj::Vector<kj::byte>& out, const TarHeader& entry) {
  auto name =
      entry.kind == TarHeader::Kind::kDirectory ? kj::str(entry.name, '/') : kj::str(entry.name);
  auto records = paxRecords(entry, name);
  if (!records.empty()) appendPax(out, records);
  Header header{};
  setText(header.name, name);
  setOctal(header.mode, entry.mode & 07777);
  setOctal(header.uid, entry.uid);
  setOctal(header.gid, entry.gid);
  setOctal(header.size, entry.size);
  setOctal(header.mtime, entry.modified < 0 ? 0 : entry.modified);
  header.type = entry.kind == TarHeader::Kind::kDirectory ? '5'
                : entry.kind == TarHeader::Kind::kSymlink ? '2'
                                                          : '0';
  setText(header.link, entry.link);
  seal(header);
  append(out, header);
}

struct Gzip::Impl {
  z_stream stream{};

  void run(int flush, kj::Vector<kj::byte>& out) {
    constexpr size_t kRoom = 16u << 10;
    do {
      size_t used = out.size();
      out.resize(used + kRoom);
      stream.next_out = out.begin() + used;
      stream.avail_out = kRoom;
      int result = deflate(&stream, flush);
      KJ_ASSERT(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR, result);
      out.truncate(out.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
};

Gzip::Gzip() : impl(kj::heap<Impl>()) {
  constexpr int kGzipFormat = 15 + 16;  // window bits, and a gzip header in place of zlib's
  KJ_ASSERT(deflateInit2(&impl->stream, Z_BEST_SPEED, Z_DEFLATED, kGzipFormat, 8,
                         Z_DEFAULT_STRATEGY) == Z_OK);
}

Gzip::~Gzip() noexcept(false) {
  deflateEnd(&impl->stream);
}

void Gzip::write(kj::ArrayPtr<const kj::byte> bytes, kj::Vector<kj::byte>& out) {
  KJ_REQUIRE(bytes.size() < 1u << 30);
  impl->stream.next_in = const_cast<kj::byte*>(bytes.begin());
  impl->stream.avail_in = static_cast<unsigned>(bytes.size());
  impl->run(Z_NO_FLUSH, out);
}

void Gzip::finish(kj::Vector<kj::byte>& out) {
  impl->stream.avail_in = 0;
  impl->run(Z_FINISH, out);
}

}  // namespace talos
