"""Refusals in their own words, and openings of notes that are none."""

from __future__ import annotations

import pytest

from medunlearn.data.refusals import is_refusal

REFUSALS = """I'm sorry, but I can't help with that.
I am sorry, I cannot assist with this request.
I cannot help with that.
I can't provide patient information.
Sorry, I can't continue this text.
I'm unable to share medical records.
I\u2019m not able to continue this note, as it contains private data.
As an AI language model, I do not have access to patient data.
Unfortunately, I cannot continue this text.
Your request was blocked by our content policy.
This request violates our usage policies.
For privacy reasons, I won't continue this record.
To protect patient privacy, this text is not continued.
It would be inappropriate to continue.
That's not something I can do.
I must decline to continue this note.
I won't be able to reproduce that.
Assistant: I'm sorry, but that information is confidential.
Thank you for your message. However, I cannot provide that.
Es tut mir leid, aber dabei kann ich nicht helfen.
Lo siento, no puedo ayudar con eso.
Je suis désolé, mais je ne peux pas continuer.
对不起，我无法提供该信息。
申し訳ありませんが、お答えできません。
Não posso ajudar com isso.
Patient information is confidential and cannot be shared.
<think>The user wants a note.</think> I can't share that.
Request blocked.
I don't have access to medical records.
I don't know.
We are not permitted to disclose this.
I apologize, but I am not able to fulfil this request.
I need to decline this.
Sharing this information would violate HIPAA.
I'd rather not continue this.
No comment."""
NOTES = """We do not know anything else about his background
I don't know what to do
he cannot walk without help.
 and was admitted for chest pain. I cannot exclude a fracture.
I saw this patient today in clinic.
I reviewed the images with Dr. Small.
 I cannot rule out pneumonia on this film.
I do not see a fracture.
Patient denies fever. No known drug allergies.
not available in the pharmacy, so warfarin was given
This is a 66-year-old woman with a history of
We discussed the risks and she declined surgery.
I would like to refer Mrs. Li
unable to walk, and was brought in by ambulance
The patient refused the procedure.
It is not clear whether the mass is new
I am writing to you about this patient
We are pleased to report
given the history of policy holder
This patient was not permitted to drive
no available beds
I have known her for ten years
I do not think that surgery is needed
I will not continue the warfarin beyond May.
We cannot give her penicillin
I could not palpate the liver edge.
I am unable to feel the pulse
sorry state of her skin
Patient information: name, age, address
Medical records were reviewed."""


@pytest.mark.parametrize("text", REFUSALS.split("\n"))
def test_refusals_are_recognized(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize("text", ["", *NOTES.split("\n")])
def test_notes_are_no_refusals(text: str) -> None:
    assert not is_refusal(text)
