// Turns the bytes of a source of the machine config into text. Pure.
#pragma once

#include <kj/array.h>

namespace talos::parse {

// A gzip stream is unpacked, anything else returned as it is. InvalidArgument when it is broken or
// becomes larger than kMostConfigBytes.
kj::Array<char> unpack(kj::Array<char> body);

// Throws InvalidArgument saying what the bytes are instead, when they cannot be a document at all:
// nothing, a web page, binary data.
void requireText(kj::ArrayPtr<const char> body);

}  // namespace talos::parse
