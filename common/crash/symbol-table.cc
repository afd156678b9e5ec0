#include "common/crash/symbol-table.h"

#include <string.h>
#include <zlib.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/lines.h"

namespace talos::crash {
namespace {

constexpr kj::StringPtr kTitle = "talos-symbols 1 "_kj;
constexpr unsigned kMostDigits = 16;

kj::Maybe<unsigned> digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return nullptr;
}

// Reads the number at the beginning and returns the count of its digits; 0 if there is no number.
unsigned hexadecimal(kj::ArrayPtr<const char> text, uint64_t& value) {
  unsigned n = 0;
  value = 0;
  for (char c : text) {
    KJ_IF_MAYBE (d, digit(c)) {
      if (++n > kMostDigits) return 0;
      value = value << 4 | *d;
    } else {
      break;
    }
  }
  return n;
}

}  // namespace

SymbolTable::SymbolTable(kj::Array<char> content) : text(kj::mv(content)) {
  bool first = true;
  for (auto line : Lines(text)) {
    if (first) {
      first = false;
      bool good =
          line.size() > kTitle.size() && memcmp(line.begin(), kTitle.begin(), kTitle.size()) == 0;
      if (!good)
        fail(ErrorKind::kInvalidArgument, "not a table of symbols; make symbols writes one");
      id = kj::heapString(line.slice(kTitle.size(), line.size()));
      continue;
    }
    Symbol symbol{};
    auto digits = hexadecimal(line, symbol.address);
    bool good = digits > 0 && digits < line.size() && line[digits] == ' ' &&
                (symbols.empty() || symbols.back().address <= symbol.address);
    if (!good) fail(ErrorKind::kInvalidArgument, "the table of symbols is damaged");
    symbol.name = static_cast<uint32_t>(line.begin() - text.begin() + digits + 1);
    symbol.size = static_cast<uint32_t>(line.size() - digits - 1);
    symbols.add(symbol);
  }
  if (first) fail(ErrorKind::kInvalidArgument, "the table of symbols is empty");
}

kj::Maybe<kj::String> SymbolTable::nameOf(uint64_t address) const {
  auto after = std::upper_bound(symbols.begin(), symbols.end(), address,
                                [](uint64_t a, const Symbol& s) { return a < s.address; });
  if (after == symbols.begin()) return nullptr;
  auto& symbol = *(after - 1);
  if (symbol.size == 0) return nullptr;
  auto name = text.slice(symbol.name, symbol.name + symbol.size);
  return kj::str(name, "+0x", kj::hex(address - symbol.address));
}

kj::Array<char> gunzip(kj::ArrayPtr<const kj::byte> compressed, size_t limit) {
  constexpr int kGzip = 16 + MAX_WBITS;
  z_stream stream{};
  if (inflateInit2(&stream, kGzip) != Z_OK) KJ_FAIL_REQUIRE("no memory for zlib");
  KJ_DEFER(inflateEnd(&stream));
  stream.next_in = const_cast<kj::byte*>(compressed.begin());
  stream.avail_in = static_cast<uInt>(compressed.size());
  kj::Vector<char> out;
  kj::byte piece[64u << 10];
  for (int result = Z_OK; result != Z_STREAM_END;) {
    stream.next_out = piece;
    stream.avail_out = sizeof piece;
    result = inflate(&stream, Z_NO_FLUSH);
    size_t got = sizeof piece - stream.avail_out;
    bool damaged = result != Z_OK && result != Z_STREAM_END;
    if (damaged || (got == 0 && result == Z_OK)) {
      fail(ErrorKind::kInvalidArgument, "it is not compressed with gzip, or it is damaged");
    }
    if (out.size() + got > limit) {
      fail(ErrorKind::kInvalidArgument, kj::str("it is larger than ", limit >> 20, " MiB"));
    }
    out.addAll(piece, piece + got);
  }
  return out.releaseAsArray();
}

kj::Maybe<uint64_t> parseAddress(kj::StringPtr text) {
  if (!text.startsWith("0x")) return nullptr;
  uint64_t value;
  auto digits = hexadecimal(text.slice(2), value);
  if (digits == 0 || digits != text.size() - 2) return nullptr;
  return value;
}

}  // namespace talos::crash
