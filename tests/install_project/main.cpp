// A program of somebody who has installed pdl. tests/install_test.py builds and runs it.
#include <pdl/pdl.hpp>

#include <iostream>

int main() {
  std::cout << pdl::predict({{"gpus", "5"}, {"depth", "20"}, {"schedule", "gpipe"}}).json();
}
