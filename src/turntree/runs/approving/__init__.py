"""What a person is asked about calls: requests, answers, and what is done about those that wait."""
