#include "talosctl/views/link-tree.h"

#include <algorithm>
#include <set>
#include <string>

#include "common/base/annotation.h"
#include "talosctl/cli/table.h"

namespace talos::talosctl {

namespace {

constexpr size_t kMaxDepth = 16;
// Names of links have 15 bytes, but a hostile node may send longer names.
constexpr size_t kWidestTree = 128;

kj::String detailsOf(rpc::LinkStatusSpec::Reader link) {
  kj::Vector<kj::String> parts;
  if (link.getKind() == "vlan") parts.add(kj::str("id ", link.getVlan().getVlanID()));
  if (link.hasBondMaster()) {
    KJ_IF_MAYBE (mode, annotation::enumName(link.getBondMaster().getMode())) {
      parts.add(kj::str(*mode));
    }
    auto primary = link.getBondMaster().getPrimary();
    if (primary.size() > 0) parts.add(kj::str("primary ", primary));
  }
  if (link.hasBondMember()) {
    auto member = link.getBondMember();
    parts.add(kj::str(member.getState(), ", ", member.getMiiStatus()));
    if (member.getFailures() > 0) parts.add(kj::str("failed ", member.getFailures(), "x"));
  }
  if (link.hasWireguard()) {
    parts.add(kj::str(link.getWireguard().getPeers().size(), " peers, port ",
                      link.getWireguard().getListenPort()));
  }
  if (link.hasBridgeMaster() && link.getBridgeMaster().getStp()) parts.add(kj::str("STP"));
  return kj::strArray(parts, ", ");
}

size_t width(kj::StringPtr text) {
  size_t count = 0;
  for (unsigned char c : text) count += (c & 0xc0) != 0x80;  // counts characters of UTF-8
  return count;
}

class Drawing {
 public:
  explicit Drawing(kj::ArrayPtr<const DrawnLink> links) {
    for (auto& link : links) sorted.add(&link);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](auto a, auto b) { return a->spec.getIndex() < b->spec.getIndex(); });
  }

  kj::String draw() {
    for (auto link : sorted) {
      if (parentOf(*link) == nullptr) add(*link, "", "", 0);
    }
    for (auto link : sorted) add(*link, "", "", 0);  // links that are in no tree
    size_t widest = 0;
    for (auto& line : lines) widest = std::max(widest, width(line.tree));
    widest = std::min(widest, kWidestTree);
    kj::Vector<kj::String> texts;
    for (auto& line : lines) {
      auto text = kj::str(
          line.tree, kj::repeat(' ', widest - std::min(widest, width(line.tree)) + 3), line.rest);
      size_t end = text.size();
      while (end > 0 && text[end - 1] == ' ') --end;
      texts.add(kj::str(text.slice(0, end), "\n"));
    }
    return kj::strArray(texts, "");
  }

 private:
  struct Line {
    kj::String tree, rest;
  };
  kj::Vector<const DrawnLink*> sorted;
  kj::Vector<Line> lines;
  std::set<const DrawnLink*> drawn;

  const DrawnLink* find(unsigned index) const {
    for (auto link : sorted) {
      if (link->spec.getIndex() == index) return link;
    }
    return nullptr;
  }
  const DrawnLink* parentOf(const DrawnLink& link) const {
    if (auto master = find(link.spec.getMasterIndex())) return master;
    // The other end of a veth is not its parent.
    return link.spec.getKind() == "vlan" ? find(link.spec.getLinkIndex()) : nullptr;
  }

  static kj::String restOf(rpc::LinkStatusSpec::Reader link) {
    auto kind = link.getKind().size() > 0 ? link.getKind() : link.getType();
    auto pad = [](kj::StringPtr text, size_t size) {
      return kj::str(text, kj::repeat(' ', text.size() < size ? size - text.size() : 0));
    };
    return kj::str(pad(kind, 10), " ", pad(link.getOperationalState(), 14), " ",
                   pad(kj::str("mtu ", link.getMtu()), 9), "  ", pad(link.getHardwareAddress(), 17),
                   "  ", detailsOf(link));
  }

  void add(const DrawnLink& link, kj::StringPtr head, kj::StringPtr indent, size_t depth) {
    if (depth > kMaxDepth || !drawn.insert(&link).second) return;
    lines.add(Line{kj::str(head, printable(link.name)), printable(restOf(link.spec))});
    kj::Vector<const DrawnLink*> children;
    for (auto other : sorted) {
      if (parentOf(*other) == &link && drawn.count(other) == 0) children.add(other);
    }
    for (size_t i = 0; i < children.size(); ++i) {
      bool last = i + 1 == children.size();
      add(*children[i], kj::str(indent, last ? "└─ " : "├─ "),
          kj::str(indent, last ? "   " : "│  "), depth + 1);
    }
  }
};

}  // namespace

kj::String drawLinks(kj::ArrayPtr<const DrawnLink> links) {
  return Drawing(links).draw();
}

}  // namespace talos::talosctl
