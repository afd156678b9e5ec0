// Makes tar archives for tests, valid and invalid ones.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

namespace talos {

class TestTar {
 public:
  void file(kj::StringPtr path, uint32_t mode, kj::StringPtr content) {
    member(path, '0', mode, content);
  }
  void directory(kj::StringPtr path, uint32_t mode) { member(path, '5', mode, ""); }
  void symlink(kj::StringPtr path, kj::StringPtr target) { member(path, '2', 0777, "", target); }
  void hardLink(kj::StringPtr path, kj::StringPtr target) { member(path, '1', 0644, "", target); }
  void longName(kj::StringPtr name) { member("././@LongLink", 'L', 0, name); }

  void pax(std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>> records) {
    kj::Vector<kj::String> lines;
    for (auto& r : records) {
      size_t body = r.first.size() + r.second.size() + 3, length = body + 1;
      while (kj::str(length).size() + body != length) ++length;
      lines.add(kj::str(length, " ", r.first, "=", r.second, "\n"));
    }
    member("PaxHeaders/x", 'x', 0644, kj::strArray(lines, ""));
  }

  void member(kj::StringPtr path, char type, uint32_t mode, kj::StringPtr content,
              kj::StringPtr link = "") {
    Header h(path, type, mode, content.size(), link);
    put(h, content);
  }
  void prefixed(kj::StringPtr prefix, kj::StringPtr path, uint32_t mode, kj::StringPtr content) {
    Header h(path, '0', mode, content.size(), "");
    memcpy(h.raw + 345, prefix.begin(), prefix.size());
    put(h, content);
  }
  void base256(kj::StringPtr path, kj::StringPtr content) {
    Header h(path, '0', 0644, 0, "");
    memset(h.raw + 124, 0, 12);
    h.raw[124] = char(0x80);
    h.raw[135] = char(content.size());
    put(h, content);
  }
  // Adds a header that announces more bytes than follow.
  void declared(kj::StringPtr path, char type, uint64_t size) {
    Header h(path, type, 0644, size, "");
    put(h, "");
  }

  kj::Array<kj::byte> finish() {
    for (int i = 0; i < 1024; ++i) bytes.add(0);
    return kj::heapArray<kj::byte>(bytes.asPtr());
  }

 private:
  struct Header {
    char raw[512] = {};
    Header(kj::StringPtr path, char type, uint32_t mode, uint64_t size, kj::StringPtr link) {
      memcpy(raw, path.begin(), path.size());
      snprintf(raw + 100, 8, "%07o", mode);
      snprintf(raw + 124, 12, "%011llo", (unsigned long long)size);
      snprintf(raw + 136, 12, "%011o", 1000);
      raw[156] = type;
      memcpy(raw + 157, link.begin(), link.size());
      memcpy(raw + 257, "ustar\00000", 8);
    }
  };
  kj::Vector<kj::byte> bytes;

  void put(Header& h, kj::StringPtr content) {
    memset(h.raw + 148, ' ', 8);
    unsigned sum = 0;
    for (char c : h.raw) sum += static_cast<kj::byte>(c);
    snprintf(h.raw + 148, 8, "%06o", sum);
    bytes.addAll(kj::arrayPtr(h.raw, 512).asBytes());
    bytes.addAll(content.asBytes());
    while (bytes.size() % 512 != 0) bytes.add(0);
  }
};

inline kj::Array<kj::byte> gzip(kj::ArrayPtr<const kj::byte> plain) {
  z_stream z = {};
  deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  auto out = kj::heapArray<kj::byte>(plain.size() + plain.size() / 1000 + 256);
  z.next_in = const_cast<kj::byte*>(plain.begin());
  z.avail_in = unsigned(plain.size());
  z.next_out = out.begin();
  z.avail_out = unsigned(out.size());
  deflate(&z, Z_FINISH);
  deflateEnd(&z);
  return kj::heapArray<kj::byte>(out.slice(0, out.size() - z.avail_out));
}

// Unpacks one complete stream of at most `most` bytes; returns nullptr for anything else.
inline kj::Maybe<kj::Array<kj::byte>> gunzip(kj::ArrayPtr<const kj::byte> packed, size_t most) {
  z_stream z = {};
  if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) return nullptr;
  KJ_DEFER(inflateEnd(&z));
  auto out = kj::heapArray<kj::byte>(most + 1);
  z.next_in = const_cast<kj::byte*>(packed.begin());
  z.avail_in = unsigned(packed.size());
  z.next_out = out.begin();
  z.avail_out = unsigned(out.size());
  if (inflate(&z, Z_FINISH) != Z_STREAM_END || z.avail_in > 0) return nullptr;
  return kj::heapArray<kj::byte>(out.slice(0, z.total_out));
}

}  // namespace talos
