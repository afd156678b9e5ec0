#include "tests/published/config-facts.h"

#include <ctype.h>
#include <kj/debug.h>

#include <algorithm>
#include <sstream>

namespace talos::published {
namespace {

std::vector<std::string> wordsOf(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool isOfName(char c) {
  return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
}

// Returns true if the text has this name at `at`, and the name is no part of a longer name. A dot
// ends a name: bond0.7 is a VLAN of the link bond0.
bool isNameAt(const std::string& text, size_t at, const std::string& name) {
  if (text.compare(at, name.size(), name) != 0) return false;
  auto end = at + name.size();
  return (at == 0 || !isOfName(text[at - 1])) && (end == text.size() || !isOfName(text[end]));
}

// Returns true if the line is about the node of the test.
bool takeSetting(FactsFile& file, const Fact& line) {
  auto& words = line.words;
  auto atLeast = [&](size_t count) {
    KJ_REQUIRE(words.size() >= count, "the line has too few words", line.line.c_str());
  };
  if (words[0] == "on") {
    KJ_REQUIRE(words.size() == 2 && words[1] == "machine", line.line.c_str());
    file.machine = true;
  } else if (words[0] == "installs") {
    file.installs = true;
  } else if (words[0] == "card") {
    atLeast(3);
    file.cards.push_back({words[1], words[2], words.size() > 3 ? words[3] : ""});
  } else if (words[0] == "disk") {
    atLeast(2);
    file.disks.push_back(words[1]);
  } else if (words[0] == "replace") {
    atLeast(3);
    file.replacements.push_back({words[1], line.after(2)});
  } else if (words[0] == "refused:") {
    atLeast(2);
    file.refused = line.after(1);
  } else {
    return false;
  }
  return true;
}

void checkFact(const Fact& fact) {
  for (auto& kind : factKinds()) {
    if (fact.kind() != kind.name) continue;
    KJ_REQUIRE(fact.words.size() >= kind.words, fact.line.c_str(), kind.syntax);
    return;
  }
  KJ_FAIL_REQUIRE("there is no such kind of fact", fact.line.c_str());
}

}  // namespace

const std::vector<FactKind>& factKinds() {
  static const std::vector<FactKind> kKinds = {
      {"bond", 6, "bond LINK mode MODE links LINK,LINK|- [FILE VALUE]…: of sysfs' folder bonding"},
      {"vlan", 6, "vlan LINK id NUMBER parent LINK"},
      {"bridge", 4, "bridge LINK links LINK,LINK [stp 1]"},
      {"wireguard", 4, "wireguard LINK port NUMBER [mark NUMBER]"},
      {"peer", 3, "peer LINK KEY [keepalive SECONDS] [allowed CIDR]"},
      {"mtu", 3, "mtu LINK NUMBER"},
      {"address", 3, "address LINK CIDR"},
      {"route", 6, "route CIDR|default via ADDRESS dev LINK [metric NUMBER]"},
      {"nameserver", 2, "nameserver ADDRESS"},
      {"search", 2, "search DOMAIN"},
      {"host", 3, "host ADDRESS NAME…"},
      {"hostname", 2, "hostname NAME"},
      {"timeserver", 2, "timeserver NAME"},
      {"vip", 4, "vip ADDRESS link LINK: the node does not have it, because etcd does not run"},
      {"mirror", 3, "mirror REGISTRY URL"},
      {"sysctl", 3, "sysctl NAME VALUE"},
      {"file", 3, "file PATH TEXT: a part of the content"},
      {"module", 2, "module NAME"},
      {"environment", 2, "environment NAME=VALUE: of networkd"},
      {"mount", 2, "mount PATH"},
      {"listen", 3, "listen tcp|udp ADDRESS:PORT"},
      {"firewall", 2, "firewall TEXT: a part of the ruleset"},
      {"resource", 3, "resource TYPE TEXT: a part of `get TYPE -o yaml`"},
      {"problem", 2, "problem TEXT: the node reports that something is not in effect"},
      {"not", 3, "not KEY: TEXT: `validate` says that the key has no effect"},
  };
  return kKinds;
}

std::string Fact::after(size_t count) const {
  std::string rest;
  for (size_t i = count; i < words.size(); ++i) rest += (rest.empty() ? "" : " ") + words[i];
  return rest;
}

std::string Fact::option(const std::string& name, size_t from) const {
  for (size_t i = from; i + 1 < words.size(); i += 2) {
    if (words[i] == name) return words[i + 1];
  }
  return "";
}

FactsFile parseFacts(const std::string& text) {
  FactsFile file;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    Fact fact{line, wordsOf(line)};
    if (fact.words.empty() || fact.words[0].starts_with("#")) continue;
    if (takeSetting(file, fact)) continue;
    checkFact(fact);
    file.facts.push_back(std::move(fact));
  }
  KJ_REQUIRE(file.refused.empty() || file.facts.empty(), "a refused config has no other facts");
  return file;
}

std::string fitted(const FactsFile& file, const std::string& config) {
  std::string text;
  // All cards at once: eth0 may become eth1, and eth1 eth2.
  for (size_t at = 0; at < config.size();) {
    auto card = std::find_if(file.cards.begin(), file.cards.end(),
                             [&](auto& one) { return isNameAt(config, at, one.name); });
    text += card == file.cards.end() ? std::string(1, config[at]) : card->link;
    at += card == file.cards.end() ? 1 : card->name.size();
  }
  for (auto& [before, after] : file.replacements) {
    KJ_REQUIRE(text.find(before) != std::string::npos, "the config does not have", before.c_str());
    for (size_t at = 0; (at = text.find(before, at)) != std::string::npos; at += after.size())
      text.replace(at, before.size(), after);
  }
  return text;
}

}  // namespace talos::published
