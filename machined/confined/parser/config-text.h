// Turns the bytes of a source of the machine config into text. Pure.
#pragma once

#include <kj/array.h>

namespace talos::parse {

// Unpacks a gzip stream; returns other bytes as they are. InvalidArgument if the stream is damaged
// or becomes larger than kMostConfigBytes.
kj::Array<char> unpack(kj::Array<char> body);

// Throws InvalidArgument if the bytes cannot be a document at all, and says what they are: nothing,
// a web page, binary data.
void requireText(kj::ArrayPtr<const char> body);

}  // namespace talos::parse
