// Names of the functions of one program: what `make symbols` makes of it, and the client reads.
//
//   talos-symbols 1 <build id>
//   <address in hexadecimal> <name>      sorted by address; an empty name ends the one before
//
// compressed with gzip. A table is found by the build id of the program: its file is called
// <build id>.symbols.gz. The text is kept as it is; a look-up is a binary search in it.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::crash {

constexpr kj::StringPtr kSymbolsSuffix = ".symbols.gz"_kj;

class SymbolTable {
 public:
  // Throws InvalidArgument when it is no table, or is not sorted.
  explicit SymbolTable(kj::Array<char> text);

  kj::StringPtr buildId() const { return id; }
  // "talos::apid::run()+0x1f"; none when no function has the address.
  kj::Maybe<kj::String> nameOf(uint64_t address) const;

 private:
  struct Symbol {
    uint64_t address;
    uint32_t name, size;  // in the text
  };
  kj::Array<char> text;
  kj::String id;
  kj::Vector<Symbol> symbols;
};

// At most `limit` bytes. Throws InvalidArgument when it is not compressed with gzip, is damaged, or
// is larger.
kj::Array<char> gunzip(kj::ArrayPtr<const kj::byte> compressed, size_t limit = 128u << 20);

// "0x40120f"; none when it is not such a number.
kj::Maybe<uint64_t> parseAddress(kj::StringPtr text);

}  // namespace talos::crash
