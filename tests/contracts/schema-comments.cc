#include "tests/contracts/schema-comments.h"

#include <ctype.h>

namespace talos {
namespace {

kj::String oneLine(kj::StringPtr comment) {
  kj::Vector<char> line;
  for (char c : comment) {
    bool blank = c == ' ' || c == '\n';
    if (!blank) {
      line.add(c);
    } else if (!line.empty() && line.back() != ' ') {
      line.add(' ');
    }
  }
  while (!line.empty() && line.back() == ' ') line.removeLast();
  return kj::heapString(line);
}

kj::StringPtr find(const kj::Vector<kj::String>& members, unsigned index) {
  if (index >= members.size()) return "";
  return members[index];
}

}  // namespace

SchemaComments::SchemaComments(kj::StringPtr checkout) : disk(kj::newDiskFilesystem()) {
  auto tree = disk->getRoot().openSubdir(kj::Path(nullptr).evalNative(kj::str(checkout, "/rpc")));
  auto imports = disk->getRoot().openSubdir(kj::Path({"usr", "include"}));
  const kj::ReadableDirectory* path[] = {imports.get()};
  for (auto& name : tree->listNames()) {
    if (name.endsWith(".capnp")) add(parser.parseFromDirectory(*tree, kj::Path(name), path));
  }
}

void SchemaComments::add(capnp::ParsedSchema schema) {
  for (auto nested : schema.getAllNested()) add(nested);
  if (!schema.getProto().isInterface()) return;
  auto info = schema.getSourceInfo();
  Comments comments{oneLine(info.getDocComment()), {}};
  for (auto member : info.getMembers()) comments.members.add(oneLine(member.getDocComment()));
  all.emplace(schema.getProto().getId(), kj::mv(comments));
}

kj::StringPtr SchemaComments::of(capnp::InterfaceSchema schema) const {
  return all.at(schema.getProto().getId()).own;
}

kj::StringPtr SchemaComments::of(capnp::InterfaceSchema::Method method) const {
  return find(all.at(method.getContainingInterface().getProto().getId()).members,
              method.getOrdinal());
}

std::set<ErrorKind> errorsNamedIn(kj::StringPtr comment) {
  std::set<ErrorKind> found;
  std::string text(comment.cStr());
  for (unsigned k = 0; k <= unsigned(ErrorKind::kUnimplemented); ++k) {
    auto kind = static_cast<ErrorKind>(k);
    auto name = nameOf(kind);
    for (size_t at = 0; (at = text.find(name.cStr(), at)) != std::string::npos; ++at) {
      bool begins = at == 0 || isalpha(text[at - 1]) == 0;
      bool ends = isalpha(text[at + name.size()]) == 0;  // the byte after the text is '\0'
      if (begins && ends) found.insert(kind);
    }
  }
  return found;
}

}  // namespace talos
