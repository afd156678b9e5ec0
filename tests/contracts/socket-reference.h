// The pages docs/sockets/*.md in Markdown: one for each socket on which a program of a node talks
// Cap'n Proto, and an overview. From the service table, the schemas and their comments; who may
// call is asked of the servers themselves, and of the rules that they enforce.
#pragma once

#include "tests/contracts/schema-comments.h"

namespace talos::contracts {

// File name and contents.
struct Page {
  kj::String name, text;
};
kj::Vector<Page> socketPages(kj::WaitScope& scope, const SchemaComments& comments);

}  // namespace talos::contracts
