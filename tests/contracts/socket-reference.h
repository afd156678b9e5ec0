// The pages docs/sockets/*.md in Markdown: one for each socket on which a program of a node talks
// Cap'n Proto, and an overview. They are made from the service table, the schemas and their
// comments; the permitted callers come from the servers themselves, and from the rules that they
// enforce.
#pragma once

#include "tests/contracts/schema-comments.h"

namespace talos::contracts {

// A file's name and contents.
struct Page {
  kj::String name, text;
};
kj::Vector<Page> socketPages(kj::WaitScope& scope, const SchemaComments& comments);

}  // namespace talos::contracts
