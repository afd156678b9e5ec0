#include "tests/harness/draw.h"

namespace talos::harness {

Draw::Draw(uint64_t seed, uint64_t number) {
  std::seed_seq words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                      static_cast<uint32_t>(number)};
  random.seed(words);
}

unsigned Draw::number(unsigned least, unsigned most) {
  return least + static_cast<unsigned>(random() % (most - least + 1));
}

std::string Draw::addressIn(const std::string& prefix, unsigned least, unsigned most) {
  return prefix + "." + std::to_string(number(least, most));
}

std::string Draw::word() {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>('a' + number(0, 25));
  return text;
}

}  // namespace talos::harness
