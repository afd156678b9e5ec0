#include "machined/platforms/readers/ec2-keys.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {

void readExoscale(const Answers& answers, PlatformFacts& facts) {
  readKeys(answers, "exoscale", facts);
}

}  // namespace talos::platforms
