// The settings of a published config that a node with it must show: written by hand, in a file
// NAME.facts beside NAME.yaml. '#' begins a comment line. Lines about the test's node come first:
//
//   on machine           the node is a virtual machine, because it needs links, disks or modules
//                        that a container of this host cannot have; otherwise it is a container
//   card NAME LINK       the config's card NAME is the node's LINK; a machine gets a card for each
//                        LINK but eth0, with QEMU's options that may follow (mac=…, bus=port3)
//   disk SIZE            the machine has a further disk, as 400G
//   installs             the worker has an empty disk, and installs itself
//   replace OLD NEW      an address, disk or driver that the test's machine cannot have
//   refused: TEXT        validate refuses the config with this text; there are no facts then
//
// Every other line is a fact; factKinds() has its kinds, and fact-checks.cc compares them with the
// node.
#pragma once

#include <string>
#include <vector>

namespace talos::published {

struct Fact {
  std::string line;
  std::vector<std::string> words;  // of the line, with the kind first

  const std::string& kind() const { return words[0]; }
  // Returns the rest of the line after this many words.
  std::string after(size_t count) const;
  // Returns the value of an option: names and values alternate after the first `from` words. Empty
  // if the line does not have the option.
  std::string option(const std::string& name, size_t from) const;
};

struct FactsFile {
  struct Card {
    std::string name, link, options;
  };
  struct Replacement {
    std::string before, after;
  };
  bool machine = false, installs = false;
  std::string refused;
  std::vector<Card> cards;
  std::vector<std::string> disks;
  std::vector<Replacement> replacements;
  std::vector<Fact> facts;
};

struct FactKind {
  const char* name;
  size_t words;  // at least, with the kind itself
  const char* syntax;
};
const std::vector<FactKind>& factKinds();

// Throws a KJ exception with the line if a line is not of the syntax above.
FactsFile parseFacts(const std::string& text);

// Returns the config for the node of the test: with other cards, addresses and drivers.
std::string fitted(const FactsFile& file, const std::string& config);

}  // namespace talos::published
