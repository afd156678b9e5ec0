// Foreign text as it is shown: what a node, a machine of the network, a device, a pod or a user's
// file says. The one place that makes it harmless; foreign-text-copies-test.cc refuses copies. Pure
// and total.
//
// | shown | what is not plain (plain-text.h) | invalid UTF-8 | line breaks, tabs |
// |---|---|---|---|
// | on a terminal, as a line | each byte as \xNN | each byte as \xNN | \x0a, \x09 |
// | on a terminal, as text | the same | the same | stay; the \r of a line's end is left out |
// | in a log | the same, and \ before " and \ | the same | \n, \x09 |
// | in JSON and quoted YAML | \uNNNN, and \ before " and \ | U+FFFD | \n, \t, \r |
// | as a field of a message of ours | ? | ? | a blank |
//
// Not plain are control characters (C0, DEL, C1), what changes the direction or the lines of the
// text around it, and what is invisible. Everything else stays as it is. Text that was escaped for
// a terminal, or is a field, is the same when it is escaped for a terminal again.
#pragma once

#include <kj/common.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

enum class Surface { kTerminal, kLog, kJson };

// Writes a line of it until `room` bytes are used; then it ends in "...". Nothing is split: no
// character, no escape. Of a log and of JSON it is what stands between the quotes.
void addEscaped(kj::Vector<char>& out, kj::ArrayPtr<const char> text, Surface surface,
                size_t room = kj::maxValue);

// For a terminal, as a line.
kj::String printable(kj::StringPtr text);
// For a terminal, as text: error messages, lines of logs, documents.
kj::String printableText(kj::ArrayPtr<const char> text);

// Returns the text as a field, cut to `most` bytes between two characters.
kj::String fieldText(kj::ArrayPtr<const char> text, size_t most = kj::maxValue);

}  // namespace talos
