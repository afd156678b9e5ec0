// Foreign text for display: text from a node, a machine of the network, a device, a pod or a user's
// file. Only this unit makes it harmless; foreign-text-copies-test.cc refuses copies. Pure and
// total.
//
// | shown | what is not plain (plain-text.h) | invalid UTF-8 | line breaks, tabs |
// |---|---|---|---|
// | on a terminal, as a line | each byte as \xNN | each byte as \xNN | \x0a, \x09 |
// | on a terminal, as text | the same | the same | stay; the \r of a line's end is left out |
// | in a log | the same, and \ before " and \ | the same | \n, \x09 |
// | in JSON and quoted YAML | \uNNNN, and \ before " and \ | U+FFFD | \n, \t, \r |
// | as a field of a message of ours | ? | ? | a blank |
//
// Not plain are control characters (C0, DEL, C1), characters that change the direction or the lines
// of the text around them, and invisible ones. All others stay unchanged. Text that was escaped for
// a terminal, or is a field, does not change when it is escaped for a terminal again.
#pragma once

#include <kj/common.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

enum class Surface { kTerminal, kLog, kJson };

// Appends a line of the text until `room` bytes are used; a longer one ends in "...". Neither a
// character nor an escape is split. For a log and for JSON it appends the part between the quotes.
void addEscaped(kj::Vector<char>& out, kj::ArrayPtr<const char> text, Surface surface,
                size_t room = kj::maxValue);

// Appends the text in double quotes, for a log or for JSON.
void addQuoted(kj::Vector<char>& out, kj::ArrayPtr<const char> text, Surface surface);
// Returns the text as a string of JSON, with its quotes.
kj::String jsonString(kj::StringPtr text);
// Returns a list of such strings: ["a", "b"].
kj::String jsonList(kj::ArrayPtr<const kj::String> texts);

// Returns the text as a line for a terminal.
kj::String printable(kj::StringPtr text);
// Returns text for a terminal: error messages, lines of logs, documents.
kj::String printableText(kj::ArrayPtr<const char> text);

// Returns the text as a field, cut to `most` bytes between two characters.
kj::String fieldText(kj::ArrayPtr<const char> text, size_t most = kj::maxValue);

}  // namespace talos
