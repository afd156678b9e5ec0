// Readers of the platforms' answers, one for each platform. Pure; they run in a confined process.
//
// By the form of the answers they are in document-platforms.cc, file-platforms.cc,
// keyed-platforms.cc and openstack.cc.
//
// A value that is not valid, or that a node does not apply, is ignored and named in the problems of
// the facts; an unreadable document is InvalidArgument.
#pragma once

#include "machined/platforms/platform.h"
#include "machined/platforms/readers/platform-facts.h"

namespace talos::platforms {

// The answers of the platform, by the names of their requests.
class Answers {
 public:
  void add(kj::StringPtr name, kj::Array<char> body);
  bool has(kj::StringPtr name) const;
  kj::ArrayPtr<const char> bytes(kj::StringPtr name) const;
  // Returns the first line of an answer, without surrounding blanks; empty if missing.
  kj::String line(kj::StringPtr name) const;

 private:
  struct Answer {
    kj::String name;
    kj::Array<char> body;
  };
  kj::Vector<Answer> all;
};

void read(const Platform& platform, const Answers& answers, PlatformFacts& facts);

void readAkamai(const Answers& answers, PlatformFacts& facts);
void readAws(const Answers& answers, PlatformFacts& facts);
void readAzure(const Answers& answers, PlatformFacts& facts);
void readCloudstack(const Answers& answers, PlatformFacts& facts);
void readDigitalOcean(const Answers& answers, PlatformFacts& facts);
void readEquinixMetal(const Answers& answers, PlatformFacts& facts);
void readExoscale(const Answers& answers, PlatformFacts& facts);
void readGcp(const Answers& answers, PlatformFacts& facts);
void readHetzner(const Answers& answers, PlatformFacts& facts);
void readNocloud(const Answers& answers, PlatformFacts& facts);
void readOpennebula(const Answers& answers, PlatformFacts& facts);
void readOpenstack(const Answers& answers, PlatformFacts& facts);
void readOracle(const Answers& answers, PlatformFacts& facts);
void readScaleway(const Answers& answers, PlatformFacts& facts);
void readUpcloud(const Answers& answers, PlatformFacts& facts);
void readVmware(const Answers& answers, PlatformFacts& facts);
void readVultr(const Answers& answers, PlatformFacts& facts);

}  // namespace talos::platforms
