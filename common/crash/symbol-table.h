// Names of the functions of one program, which `make symbols` writes and the client reads.
//
//   talos-symbols 1 <build id>
//   <address in hexadecimal> <name>      sorted by address; an empty name ends the one before
//
// compressed with gzip. The build id of the program names the file: <build id>.symbols.gz. The text
// is kept unchanged; a look-up is a binary search in it.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::crash {

constexpr kj::StringPtr kSymbolsSuffix = ".symbols.gz"_kj;

class SymbolTable {
 public:
  // Throws InvalidArgument if the text is not a table, or is not sorted.
  explicit SymbolTable(kj::Array<char> text);

  kj::StringPtr buildId() const { return id; }
  // Returns "talos::apid::run()+0x1f"; nullptr if no function has the address.
  kj::Maybe<kj::String> nameOf(uint64_t address) const;

 private:
  struct Symbol {
    uint64_t address;
    uint32_t name, size;  // position in the text
  };
  kj::Array<char> text;
  kj::String id;
  kj::Vector<Symbol> symbols;
};

// Unpacks at most `limit` bytes. Throws InvalidArgument if the bytes are not gzip, are damaged, or
// unpack to more.
kj::Array<char> gunzip(kj::ArrayPtr<const kj::byte> compressed, size_t limit = 128u << 20);

// Parses "0x40120f"; returns nullptr for any other text.
kj::Maybe<uint64_t> parseAddress(kj::StringPtr text);

}  // namespace talos::crash
